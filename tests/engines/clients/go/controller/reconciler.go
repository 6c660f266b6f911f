package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.dev/session"

// reconciler gives every Widget an owned ConfigMap, a Secret by server-side apply, a status, and an end.
type reconciler struct {
	client.Client
	recorder record.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.end(ctx, widget)
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		return ctrl.Result{}, r.Update(ctx, widget) // which is heard, and reconciled again
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.Name, Namespace: widget.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Labels = map[string]string{"colour": widget.Spec.Colour}
		child.Data = map[string]string{"colour": widget.Spec.Colour}
		return controllerutil.SetControllerReference(widget, child, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done == controllerutil.OperationResultCreated {
		r.recorder.Event(widget, corev1.EventTypeNormal, "Created", "made its ConfigMap")
	}
	if err := r.apply(ctx, widget); err != nil {
		return ctrl.Result{}, err
	}
	changed := meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: widget.Generation,
	})
	if !changed && widget.Status.ObservedGeneration == widget.Generation {
		return ctrl.Result{}, nil
	}
	widget.Status.ObservedGeneration = widget.Generation
	return ctrl.Result{}, r.Status().Update(ctx, widget)
}

// apply makes the Secret by server-side apply, with the Widget as its owner.
func (r *reconciler) apply(ctx context.Context, widget *Widget) error {
	kind := widget.GroupVersionKind()
	owner := metav1apply.OwnerReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind).
		WithName(widget.Name).WithUID(widget.UID).WithController(true).WithBlockOwnerDeletion(true)
	wanted := corev1apply.Secret(widget.Name, widget.Namespace).WithOwnerReferences(owner).
		WithStringData(map[string]string{"colour": widget.Spec.Colour})
	return r.Apply(ctx, wanted, client.FieldOwner("session"), client.ForceOwnership)
}

// end does what must be done before a Widget goes: it leaves a ConfigMap without an owner.
func (r *reconciler) end(ctx context.Context, widget *Widget) error {
	if !controllerutil.ContainsFinalizer(widget, finalizer) {
		return nil
	}
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.Name + "-left", Namespace: widget.Namespace}}
	if err := r.Create(ctx, left); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	before := client.MergeFromWithOptions(widget.deepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(widget, finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, widget, before))
}
