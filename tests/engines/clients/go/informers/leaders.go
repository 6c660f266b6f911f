package main

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	newevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	. "clients-for-tests/session"
)

// leaders lets two candidates run for one Lease: the second leads once the first has let go.
func leaders(ctx context.Context, client *kubernetes.Clientset, at Place) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var leading atomic.Int32
	run := func(number int32, name string) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: at.Namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 6 * time.Second,
			RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading.Store(number) },
				OnStoppedLeading: func() {},
			},
		})
		return cancel
	}
	end := run(1, "one")
	Eventually("the first leads", func() bool { return leading.Load() == 1 })
	run(2, "two")
	end()
	Eventually("the second leads", func() bool { return leading.Load() == 2 })
	lease, err := client.CoordinationV1().Leases(at.Namespace).Get(ctx, "leader", metav1.GetOptions{})
	Must(err)
	Check("holder", *lease.Spec.HolderIdentity, "two")
	Check("renewed later than acquired", lease.Spec.RenewTime.Before(lease.Spec.AcquireTime), false)
}

// events records events by both interfaces: repeated ones are counted.
func events(ctx context.Context, client *kubernetes.Clientset, at Place) {
	about, err := client.CoreV1().ConfigMaps(at.Namespace).Create(ctx, configMap("about", nil), metav1.CreateOptions{})
	Must(err)
	old := record.NewBroadcaster()
	old.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(at.Namespace)})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "session"})
	for range 3 {
		recorder.Event(about, corev1.EventTypeNormal, "Repeated", "the same")
	}
	Eventually("a counted event", func() bool {
		listed, err := client.CoreV1().Events(at.Namespace).Search(scheme.Scheme, about)
		Must(err)
		return len(listed.Items) == 1 && listed.Items[0].Count == 3 && listed.Items[0].Source.Component == "session"
	})
	old.Shutdown()
	broadcaster := newevents.NewBroadcaster(&newevents.EventSinkImpl{Interface: client.EventsV1()})
	Must(broadcaster.StartRecordingToSinkWithContext(ctx))
	regarding := broadcaster.NewRecorder(scheme.Scheme, "example.dev/session")
	for range 2 {
		regarding.Eventf(about, nil, corev1.EventTypeNormal, "New", "Acting", "number %d", 1)
	}
	options := metav1.ListOptions{FieldSelector: "reason=New"}
	Eventually("a series", func() bool {
		listed, err := client.EventsV1().Events(at.Namespace).List(ctx, options)
		Must(err)
		return len(listed.Items) == 1 && series(listed.Items[0]) == 2
	})
	broadcaster.Shutdown()
}

func series(event eventsv1.Event) int32 {
	if event.Series == nil {
		return 0
	}
	return event.Series.Count
}
