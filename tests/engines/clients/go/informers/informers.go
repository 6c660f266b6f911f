package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	. "clients-for-tests/session"
)

// counts are the notifications of one informer, by their kind and the object's name.
type counts struct {
	lock sync.Mutex
	seen map[string]int
}

func (c *counts) add(what string, obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.seen[what+" "+obj.(metav1.Object).GetName()]++
}

func (c *counts) of(what string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.seen[what]
}

func (c *counts) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.add("add", obj) },
		UpdateFunc: func(old, new any) {
			if old.(metav1.Object).GetResourceVersion() == new.(metav1.Object).GetResourceVersion() {
				c.add("resync", new)
			} else {
				c.add("update", new)
			}
		},
		DeleteFunc: func(obj any) { c.add("delete", obj) },
	}
}

// informers follows ConfigMaps and Deployments: a streamed list, changes, resyncs, and a connection that breaks.
func informers(ctx context.Context, client *kubernetes.Clientset, at Place) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	Check("lists are streamed", features.FeatureGates().Enabled(features.WatchListClient), true)
	maps := client.CoreV1().ConfigMaps(at.Namespace)
	for number := range 3 {
		_, err := maps.Create(ctx, configMap(fmt.Sprintf("first-%d", number), nil), metav1.CreateOptions{})
		Must(err)
	}
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(
		client, time.Second, kubeinformers.WithNamespace(at.Namespace),
	)
	seen := &counts{seen: map[string]int{}}
	lister, deployments := factory.Core().V1().ConfigMaps().Lister(), factory.Apps().V1().Deployments().Lister()
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(seen.handler())
	Must(err)
	plain := at.Traffic.Requests("GET", "/configmaps?", "limit=")
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		Check(kind.String(), synced, true)
	}
	Check("first-0 is there", seen.of("add first-0") <= 1, true)
	_, err = lister.ConfigMaps(at.Namespace).Get("first-0")
	Must(err)
	Check("streamed lists", at.Traffic.Requests("GET", "/configmaps?", "sendInitialEvents=true"), 1)
	Check("plain lists", at.Traffic.Requests("GET", "/configmaps?", "limit="), plain)

	changed, err := maps.Create(ctx, configMap("changed", nil), metav1.CreateOptions{})
	Must(err)
	changed.Data = map[string]string{"a": "b"}
	_, err = maps.Update(ctx, changed, metav1.UpdateOptions{})
	Must(err)
	Must(maps.Delete(ctx, "first-1", metav1.DeleteOptions{}))
	Eventually("changes", func() bool {
		return seen.of("add changed") == 1 && seen.of("update changed") == 1 && seen.of("delete first-1") == 1
	})
	Eventually("a resync", func() bool { return seen.of("resync changed") > 0 })

	at.Traffic.Cut()
	_, err = maps.Create(ctx, configMap("later", nil), metav1.CreateOptions{})
	if err != nil { // its own connection was one of them
		_, err = maps.Create(ctx, configMap("later", nil), metav1.CreateOptions{})
	}
	Must(err)
	Must(maps.Delete(ctx, "first-2", metav1.DeleteOptions{}))
	Eventually("changes after the break", func() bool {
		return seen.of("add later") == 1 && seen.of("delete first-2") == 1
	})
	Check("nothing is told twice", seen.of("add changed")+seen.of("update changed")+seen.of("add first-0"), 3)

	replicas := int32(0)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
	deployment.Spec.Template.Labels = map[string]string{"app": "d"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: Image}}
	_, err = client.AppsV1().Deployments(at.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
	Must(err)
	// The controller writes its status meanwhile.
	Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale, err := client.AppsV1().Deployments(at.Namespace).GetScale(ctx, "d", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 1
		_, err = client.AppsV1().Deployments(at.Namespace).UpdateScale(ctx, "d", scale, metav1.UpdateOptions{})
		return err
	}))
	Eventually("its replica in the cache", func() bool {
		cached, err := deployments.Deployments(at.Namespace).Get("d")
		return err == nil && cached.Status.Replicas == 1 && cached.Status.ObservedGeneration == cached.Generation
	})
	Must(client.AppsV1().Deployments(at.Namespace).Delete(ctx, "d", metav1.DeleteOptions{}))
}

// otherInformers follows a custom kind by the dynamic client, and the metadata alone of ConfigMaps.
func otherInformers(ctx context.Context, client *kubernetes.Clientset, at Place) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	config := *at.Config
	config.ContentType, config.AcceptContentTypes = "", ""
	untyped, err := dynamic.NewForConfig(&config)
	Must(err)
	group := at.Namespace + ".example.dev"
	Define(ctx, untyped, group)
	widgets := untyped.Resource(Widgets(group)).Namespace(at.Namespace)
	followed := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, at.Namespace, nil)
	ofWidgets := followed.ForResource(Widgets(group))
	ofWidgets.Informer()
	followed.Start(ctx.Done())
	followed.WaitForCacheSync(ctx.Done())
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w"}, "spec": map[string]any{"replicas": int64(1)},
	}}
	_, err = widgets.Create(ctx, widget, metav1.CreateOptions{})
	Must(err)
	Eventually("the widget in the cache", func() bool {
		_, err := ofWidgets.Lister().ByNamespace(at.Namespace).Get("w")
		return err == nil
	})
	partial, err := metadata.NewForConfig(&config)
	Must(err)
	some := metadatainformer.NewFilteredSharedInformerFactory(partial, 0, at.Namespace, nil)
	ofMaps := some.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	ofMaps.Informer()
	partially := some.ForResource(Widgets(group))
	partially.Informer()
	some.Start(ctx.Done())
	some.WaitForCacheSync(ctx.Done())
	listed, err := ofMaps.Lister().List(labels.Set{"session": "clients"}.AsSelector())
	Must(err)
	Check("metadata of ConfigMaps", len(listed), len(mapsOf(ctx, client, at)))
	_, err = partially.Lister().ByNamespace(at.Namespace).Get("w")
	Must(err)
	page, err := partial.Resource(Widgets(group)).Namespace(at.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	Must(err)
	Check("metadata of widgets", page.Items[0].Name, "w")
	Undefine(ctx, untyped, group)
}

func mapsOf(ctx context.Context, client *kubernetes.Clientset, at Place) []corev1.ConfigMap {
	listed, err := client.CoreV1().ConfigMaps(at.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "session=clients"})
	Must(err)
	return listed.Items
}
