// SPDX-License-Identifier: Apache-2.0

package vswitch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/vswitch"
)

const (
	schema = "/usr/share/openvswitch/vswitch.ovsschema"
	// deadline is far beyond what anything here takes on a busy machine.
	deadline = time.Minute
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t testing.TB, s string) endpoint.Endpoint {
	t.Helper()
	e, err := endpoint.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// vsctl runs one transaction.
func vsctl(t testing.TB, s *ovsdbtest.Server, args ...string) {
	t.Helper()
	args = append([]string{"--db=" + s.Endpoint, "--no-wait", "--timeout=30"}, args...)
	if out, err := exec.Command("ovs-vsctl", args...).CombinedOutput(); err != nil {
		t.Fatalf("ovs-vsctl %q: %v: %s", args, err, out)
	}
}

// observer is a Watch that runs until the test ends or stop is called.
type observer struct {
	views  chan vswitch.View
	states chan error
	stop   func()
}

func observe(t testing.TB, e endpoint.Endpoint, cfg *tls.Config) *observer {
	t.Helper()
	return observeBy(t, func(ctx context.Context, onChange func(vswitch.View), onState func(error)) error {
		return vswitch.Watch(ctx, e, cfg, "br-int", onChange, onState)
	})
}

func observeBy(t testing.TB, watch func(context.Context, func(vswitch.View), func(error)) error) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{views: make(chan vswitch.View), states: make(chan error)}
	done := make(chan error, 1)
	go func() {
		done <- watch(ctx,
			func(v vswitch.View) { deliver(ctx, o.views, v) },
			func(err error) { deliver(ctx, o.states, err) })
	}()
	stopped := false
	o.stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Watch: %v, want that the context was cancelled", err)
			}
		case <-time.After(deadline):
			t.Error("Watch goes on after its context has ended")
		}
	}
	t.Cleanup(o.stop)
	return o
}

func deliver[T any](ctx context.Context, to chan<- T, value T) {
	select {
	case to <- value:
	case <-ctx.Done():
	}
}

// view gives the next View; no change of state may come before it.
func (o *observer) view(t testing.TB) vswitch.View {
	t.Helper()
	select {
	case v := <-o.views:
		return v
	case err := <-o.states:
		t.Fatalf("a state instead of a View: %v", err)
	case <-time.After(deadline):
		t.Fatal("no View")
	}
	return vswitch.View{}
}

// up waits for the state of a complete View; no View may come before it.
func (o *observer) up(t testing.TB) {
	t.Helper()
	for {
		select {
		case err := <-o.states:
			if err == nil {
				return
			}
		case v := <-o.views:
			t.Fatalf("a View instead of a state: %+v", v)
		case <-time.After(deadline):
			t.Fatal("not connected")
		}
	}
}

// down waits for the loss of the database and gives its reason; no View may come
// before it.
func (o *observer) down(t testing.TB) error {
	t.Helper()
	select {
	case err := <-o.states:
		if err == nil {
			t.Fatal("onState says that the database is connected")
		}
		return err
	case v := <-o.views:
		t.Fatalf("a View instead of a state: %+v", v)
	case <-time.After(deadline):
		t.Fatal("no loss")
	}
	return nil
}

// recovered ignores how tries fail until a View comes.
func (o *observer) recovered(t testing.TB) vswitch.View {
	t.Helper()
	for {
		select {
		case v := <-o.views:
			return v
		case err := <-o.states:
			if err == nil {
				t.Fatal("onState says that the database is connected before a View")
			}
		case <-time.After(deadline):
			t.Fatal("no View")
		}
	}
}
