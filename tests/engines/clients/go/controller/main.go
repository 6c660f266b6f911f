// Command controller drives controller-runtime: a manager with a cached client and leader election, whose
// reconciler uses owner references, finalizers, the status subresource, server-side apply and events.
package main

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	. "clients-for-tests/session"
)

func main() {
	at := Open()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := context.WithCancel(context.Background())
	typed := at.Begin(ctx)
	untyped, err := dynamic.NewForConfig(at.Config)
	Must(err)
	group := at.Namespace + ".example.dev"
	Define(ctx, untyped, group)
	scheme := runtime.NewScheme()
	Must(clientgoscheme.AddToScheme(scheme))
	addWidgets(scheme, group)
	manager, err := ctrl.NewManager(at.Config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "session",
		LeaderElectionNamespace:       at.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{at.Namespace: {}}},
	})
	Must(err)
	byColour := func(obj client.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["colour"]} }
	Must(manager.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "data.colour", byColour))
	Must(ctrl.NewControllerManagedBy(manager).
		For(&Widget{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}, builder.OnlyMetadata).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorderFor("session")}))
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	<-manager.Elected()
	check(ctx, manager.GetClient(), manager.GetAPIReader(), at.Namespace)
	stop()
	Must(<-ended)
	ctx = context.Background()
	Undefine(ctx, untyped, group)
	at.End(ctx, typed)
}

// check makes a Widget, changes it, removes what it owns, and deletes it.
func check(ctx context.Context, cached client.Client, direct client.Reader, namespace string) {
	widget := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: namespace}}
	widget.Spec.Colour = "red"
	Must(cached.Create(ctx, widget))
	key := client.ObjectKeyFromObject(widget)
	ready := func() bool {
		if err := cached.Get(ctx, key, widget); err != nil {
			return false
		}
		said := meta.FindStatusCondition(widget.Status.Conditions, "Ready")
		return said != nil && said.ObservedGeneration == widget.Generation &&
			widget.Status.ObservedGeneration == widget.Generation
	}
	Eventually("ready", ready)
	Check("generation", widget.Generation, int64(1))
	child, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	Must(direct.Get(ctx, key, child))
	Must(direct.Get(ctx, key, secret))
	Check("owner of the ConfigMap", metav1.IsControlledBy(child, widget), true)
	Check("owner of the Secret", metav1.IsControlledBy(secret, widget), true)

	patch := client.MergeFrom(widget.deepCopy())
	widget.Spec.Colour = "green"
	Must(cached.Patch(ctx, widget, patch))
	Check("generation", widget.Generation, int64(2))
	Eventually("ready again", ready)
	Eventually("the ConfigMap by its index", func() bool {
		listed := &corev1.ConfigMapList{}
		Must(cached.List(ctx, listed, client.InNamespace(namespace), client.MatchingFields{"data.colour": "green"}))
		return len(listed.Items) == 1 && listed.Items[0].Name == "w"
	})
	Must(direct.Get(ctx, key, secret))
	Check("the Secret", string(secret.Data["colour"]), "green")

	for _, owned := range []client.Object{child, secret} {
		uid := owned.GetUID()
		Must(cached.Delete(ctx, owned))
		Eventually("what it owned made again", func() bool {
			return direct.Get(ctx, key, owned) == nil && owned.GetUID() != uid
		})
	}
	Eventually("its event", func() bool {
		listed := &corev1.EventList{}
		Must(direct.List(ctx, listed, client.InNamespace(namespace)))
		for _, event := range listed.Items {
			if event.InvolvedObject.UID == widget.UID && event.Reason == "Created" {
				return true
			}
		}
		return false
	})

	Must(cached.Delete(ctx, widget, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	for _, object := range []client.Object{widget, child, secret} {
		Eventually("the Widget gone with what it owned", func() bool {
			return apierrors.IsNotFound(direct.Get(ctx, key, object))
		})
	}
	Must(direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "w-left"}, child))
}
