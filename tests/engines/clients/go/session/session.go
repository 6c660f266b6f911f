// Package session has what both programs need: the server that the command line names, a namespace, and waiting.
package session

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Limit is how long anything may take.
const Limit = 60 * time.Second

// Place is a server, a namespace that is not there yet, and whether Pods run there.
type Place struct {
	Config    *rest.Config
	Namespace string
	Pods      bool
	Traffic   *Traffic
}

// Open reads the command line: [--pods] KUBECONFIG NAMESPACE.
func Open() Place {
	pods := flag.Bool("pods", false, "Pods run there")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", flag.Arg(0))
	Must(err)
	config.QPS, config.Burst = 500, 1000
	traffic := &Traffic{}
	config.Dial = traffic.dial
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return traffic.recording(next) })
	return Place{config, flag.Arg(1), *pods, traffic}
}

// Traffic records requests, and can cut all connections at once.
type Traffic struct {
	lock        sync.Mutex
	requests    []string
	connections []net.Conn
}

func (t *Traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		t.lock.Lock()
		defer t.lock.Unlock()
		t.connections = append(t.connections, connection)
	}
	return connection, err
}

// Cut breaks every connection that is open.
func (t *Traffic) Cut() {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, connection := range t.connections {
		_ = connection.Close()
	}
	t.connections = nil
}

// Requests returns how many requests were sent that have all of these parts in their method, path or query.
func (t *Traffic) Requests(parts ...string) int {
	t.lock.Lock()
	defer t.lock.Unlock()
	count := 0
	for _, request := range t.requests {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(request, part)
		}
		if all {
			count++
		}
	}
	return count
}

func (t *Traffic) recording(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		t.lock.Lock()
		t.requests = append(t.requests, request.Method+" "+request.URL.RequestURI())
		t.lock.Unlock()
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// Begin makes the namespace and waits until Pods may be made in it.
func (p Place) Begin(ctx context.Context) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(p.Config)
	Must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Must(err)
	Eventually("the default account", func() bool {
		_, err := client.CoreV1().ServiceAccounts(p.Namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return client
}

// End deletes the namespace and waits until it is gone.
func (p Place) End(ctx context.Context, client *kubernetes.Clientset) {
	Must(client.CoreV1().Namespaces().Delete(ctx, p.Namespace, metav1.DeleteOptions{}))
	Eventually("the namespace gone", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, p.Namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// Eventually waits until a condition holds, and fails where it does not within the limit.
func Eventually(what string, holds func() bool) {
	for end := time.Now().Add(Limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			Fail("not within %s: %s", Limit, what)
		}
	}
}

// Check fails where two values are not the same.
func Check[T comparable](what string, actual, expected T) {
	if actual != expected {
		Fail("%s: %v and not %v", what, actual, expected)
	}
}

// Must fails where there is an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Fail ends the program with this message.
func Fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}
