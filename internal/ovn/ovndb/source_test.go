// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestAcquire(t *testing.T) {
	c := Config{Southbound: []string{"unix:/nonexistent/sb"}}
	a, err := Acquire(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Log = &testkit.Lines{}
	b, err := Acquire(c)
	if err != nil || b != a {
		t.Fatalf("the same configuration: got %p, %v; want %p", b, err, a)
	}
	c.Monitor = All
	other, err := Acquire(c)
	if err != nil || other == a {
		t.Fatalf("another configuration: got the same, %v", err)
	}
	defer other.Release()
	if a.Snapshot() == nil || a.Snapshot().NetworkByName("x") != nil || a.Snapshot().PortByName("x") != nil ||
		a.Snapshot().Guest(1, 1) != nil || a.Status().Ready() {
		t.Error("something is there before any connection")
	}
	for range a.Snapshot().Guests() {
		t.Error("a guest is there before any connection")
	}
	a.Release()
	if again, _ := Acquire(Config{Southbound: c.Southbound}); again != a {
		t.Error("the first Release has ended it")
	} else {
		again.Release()
	}
	b.Release()
	b.Release() // one too many does no harm
	again, err := Acquire(Config{Southbound: c.Southbound})
	if err != nil || again == a {
		t.Fatalf("after the last Release: got the same, %v", err)
	}
	again.Release()
}

func TestAcquireErrors(t *testing.T) {
	tests := []struct {
		name string
		c    Config
		want string
	}{
		{"nothing", Config{}, "southbound or the northbound"},
		{"bad endpoint", Config{Southbound: []string{"unix"}}, "southbound: endpoint"},
		{"passive", Config{Northbound: []string{"ptcp:6641"}}, "active"},
		{"ssl without files", Config{Southbound: []string{"ssl:127.0.0.1:6642"}}, "certificate"},
		{"no such files", Config{Southbound: []string{"ssl:127.0.0.1:6642"}, TLS: endpoint.TLSFiles{Cert: "/x", Key: "/x", CA: "/x"}}, "tls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Acquire(tt.c)
			if err == nil {
				s.Release()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
