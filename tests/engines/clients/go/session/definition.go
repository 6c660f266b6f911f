package session

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Image is one that is on the embedded server's node.
const Image = "localhost/steelyard/steps"

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Widgets is the custom kind of a session.
func Widgets(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
}

// Define makes the definition of Widgets, with a status, and waits until they are served.
func Define(ctx context.Context, client dynamic.Interface, group string) {
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	properties := map[string]any{"spec": anything, "status": anything}
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"subresources": map[string]any{"status": map[string]any{}},
		"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": properties}},
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": []any{version},
			"names": map[string]any{
				"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
			},
		},
	}}
	_, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{})
	Must(err)
	Eventually("the definition established", func() bool {
		there, err := client.Resource(definitions).Get(ctx, "widgets."+group, metav1.GetOptions{})
		Must(err)
		conditions, _, _ := unstructured.NestedSlice(there.Object, "status", "conditions")
		for _, condition := range conditions {
			said := condition.(map[string]any)
			if said["type"] == "Established" && said["status"] == "True" {
				return true
			}
		}
		return false
	})
	Eventually("widgets served", func() bool {
		_, err := client.Resource(Widgets(group)).List(ctx, metav1.ListOptions{})
		return err == nil
	})
}

// Undefine deletes the definition.
func Undefine(ctx context.Context, client dynamic.Interface, group string) {
	Must(client.Resource(definitions).Delete(ctx, "widgets."+group, metav1.DeleteOptions{}))
}
