// SPDX-License-Identifier: Apache-2.0

package origin_test

import (
	"context"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
)

func TestContext(t *testing.T) {
	if o, ok := origin.FromContext(context.Background()); ok || o != nil {
		t.Fatalf("empty context: got %v, %v", o, ok)
	}
	if _, ok := origin.FromContext(origin.NewContext(context.Background(), nil)); ok {
		t.Fatal("a nil origin counts as one")
	}
	want := &origin.Origin{Bridge: "br-int", InPort: 7, Port: "vm1"}
	if got, ok := origin.FromContext(origin.NewContext(context.Background(), want)); !ok || got != want {
		t.Fatalf("got %v, %v", got, ok)
	}
}

func TestStrings(t *testing.T) {
	n := origin.Network{0: 0x12, 4: 0xab, 6: 0x40, 8: 0x8f, 15: 0xff}
	if got, want := n.String(), "12000000-ab00-4000-8f00-0000000000ff"; got != want {
		t.Errorf("network: got %s, want %s", got, want)
	}
	if n.IsZero() || !(origin.Network{}).IsZero() {
		t.Error("IsZero")
	}
	if got, want := (origin.MAC{2, 0, 0, 0, 0, 0x0a}).String(), "02:00:00:00:00:0a"; got != want {
		t.Errorf("mac: got %s, want %s", got, want)
	}
}
