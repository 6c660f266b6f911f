package main

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/remotecommand"
	toolswatch "k8s.io/client-go/tools/watch"

	. "clients-for-tests/session"
)

// pods runs a Pod, reads its log and executes a command in it.
func pods(ctx context.Context, client *kubernetes.Clientset, at Place) {
	seconds := int64(1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Spec.RestartPolicy, pod.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, &seconds
	command := []string{"sh", "-c", "echo hello; sleep 600"}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: Image, Command: command}}
	_, err := client.CoreV1().Pods(at.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	Must(err)
	only := metav1.ListOptions{FieldSelector: "metadata.name=p"}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only.FieldSelector
			return client.CoreV1().Pods(at.Namespace).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only.FieldSelector
			return client.CoreV1().Pods(at.Namespace).Watch(ctx, options)
		},
	}
	limited, stop := context.WithTimeout(ctx, Limit)
	defer stop()
	_, err = toolswatch.UntilWithSync(limited, source, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		return event.Object.(*corev1.Pod).Status.Phase == corev1.PodRunning, nil
	})
	Must(err)
	Eventually("its log", func() bool {
		text, err := client.CoreV1().Pods(at.Namespace).GetLogs("p", &corev1.PodLogOptions{}).DoRaw(ctx)
		Must(err)
		return string(text) == "hello\n"
	})
	request := client.CoreV1().RESTClient().Post().Namespace(at.Namespace).Resource("pods").Name("p").SubResource("exec")
	asked := &corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}
	url := request.VersionedParams(asked, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(at.Config, "GET", url.String())
	Must(err)
	var said bytes.Buffer
	Must(executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: bytes.NewBufferString("there"), Stdout: &said}))
	Check("the answer", said.String(), "there")
	Must(client.CoreV1().Pods(at.Namespace).Delete(ctx, "p", metav1.DeleteOptions{}))
}
