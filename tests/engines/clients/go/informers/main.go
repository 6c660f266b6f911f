// Command informers drives client-go: informers that stream their lists, broken connections, leader election by
// Lease, events, server-side apply and, where Pods run, logs and exec.
package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	. "clients-for-tests/session"
)

func main() {
	at := Open()
	// Go programs of Kubernetes itself ask for protobuf first, and send it.
	at.Config.ContentType = runtime.ContentTypeProtobuf
	at.Config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	ctx := context.Background()
	client := at.Begin(ctx)
	pages(ctx, client, at)
	writes(ctx, client, at)
	informers(ctx, client, at)
	otherInformers(ctx, client, at)
	leaders(ctx, client, at)
	events(ctx, client, at)
	if at.Pods {
		pods(ctx, client, at)
	}
	at.End(ctx, client)
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"session": "clients"}}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: data}
}

// pages lists in pages, as a pager does.
func pages(ctx context.Context, client *kubernetes.Clientset, at Place) {
	maps := client.CoreV1().ConfigMaps(at.Namespace)
	for number := range 5 {
		_, err := maps.Create(ctx, configMap(fmt.Sprintf("page-%d", number), nil), metav1.CreateOptions{})
		Must(err)
	}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	}
	names := ""
	lister := pager.New(list)
	lister.PageSize = 2
	selected := metav1.ListOptions{LabelSelector: "session=clients"}
	Must(lister.EachListItem(ctx, selected, func(item runtime.Object) error {
		names += item.(*corev1.ConfigMap).Name + " "
		return nil
	}))
	Check("pages", names, "page-0 page-1 page-2 page-3 page-4 ")
	Must(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, selected))
}

// writes meets conflicts: of versions, of server-side apply, of names.
func writes(ctx context.Context, client *kubernetes.Clientset, at Place) {
	maps := client.CoreV1().ConfigMaps(at.Namespace)
	first, err := maps.Create(ctx, configMap("written", map[string]string{"a": "b"}), metav1.CreateOptions{})
	Must(err)
	_, err = maps.Create(ctx, configMap("written", nil), metav1.CreateOptions{})
	Check("the name is taken", apierrors.IsAlreadyExists(err), true)
	stale, tries := first.DeepCopy(), 0
	first.Data["a"] = "c"
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	Must(err)
	Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		stale.Data["d"] = "e"
		_, err := maps.Update(ctx, stale, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			stale, _ = maps.Get(ctx, "written", metav1.GetOptions{})
		}
		return err
	}))
	Check("tries", tries, 2)
	apply := func(value, manager string, force bool) (*corev1.ConfigMap, error) {
		wanted := corev1apply.ConfigMap("applied", at.Namespace).WithData(map[string]string{"a": value})
		return maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	_, err = apply("b", "one", false)
	Must(err)
	_, err = apply("c", "two", false)
	Check("a conflict of managers", apierrors.IsConflict(err), true)
	applied, err := apply("c", "two", true)
	Must(err)
	Check("its value", applied.Data["a"], "c")
	extracted, err := corev1apply.ExtractConfigMap(applied, "two")
	Must(err)
	Check("what one manager has", extracted.Data["a"], "c")
	uid := applied.UID + "x"
	other := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	Check("another's uid", apierrors.IsConflict(maps.Delete(ctx, "applied", other)), true)
	Must(maps.Delete(ctx, "applied", metav1.DeleteOptions{}))
	_, err = maps.Get(ctx, "applied", metav1.GetOptions{})
	Check("it is gone", apierrors.IsNotFound(err), true)
}
