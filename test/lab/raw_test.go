// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

var (
	vmMAC     = []byte{2, 0, 0, 0, 0, 0x11}
	boxMAC    = []byte{2, 0, 0, 0, 0, 0x42}
	routerMAC = []byte{2, 0, 0, 0, 1, 1}
	vlan42    = []byte{0x81, 0, 0, 42}
)

// arp returns an ARP packet from the EtherType on (RFC 826), op 1 to ask, 2 to
// answer.
func arp(op byte, sha, spa, tha, tpa []byte) []byte {
	return slices.Concat([]byte{8, 6, 0, 1, 8, 0, 6, 4, 0, op}, sha, spa, tha, tpa)
}

// A container behind a guest sends tagged frames and gets tagged ones.
func TestRaw(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	vm, _ := tenant(l, "red")
	l.NBCTL("lsp-add", "red", "box", vm.Port, "42", "--", "lsp-set-addresses", "box", "02:00:00:00:00:42 10.0.0.42")
	l.NBCTL("wait-until", "Logical_Switch_Port", "box", "up=true")
	l.Sync()
	raw := vm.Raw()

	broadcast := bytes.Repeat([]byte{255}, 6)
	vmIP, boxIP, routerIP := []byte{10, 0, 0, 11}, []byte{10, 0, 0, 42}, []byte{10, 0, 0, 1}
	for _, tc := range []struct {
		name      string
		ask, want []byte
	}{
		{
			"untagged",
			slices.Concat(broadcast, vmMAC, arp(1, vmMAC, vmIP, make([]byte, 6), routerIP)),
			slices.Concat(vmMAC, routerMAC, arp(2, routerMAC, routerIP, vmMAC, vmIP)),
		},
		{
			"tagged",
			slices.Concat(broadcast, boxMAC, vlan42, arp(1, boxMAC, boxIP, make([]byte, 6), routerIP)),
			slices.Concat(boxMAC, routerMAC, vlan42, arp(2, routerMAC, routerIP, boxMAC, boxIP)),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := raw.Send(tc.ask); err != nil {
				t.Fatal(err)
			}
			// Frames of the guest's kernel and of the router come in between.
			if _, err := raw.RecvMatch(within(t, wait), func(f []byte) bool { return bytes.HasPrefix(f, tc.want) }); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(within(t, wait))
		cancel()
		if _, err := raw.RecvMatch(ctx, func([]byte) bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	if err := raw.Close(); err != nil {
		t.Error(err)
	}
	if _, err := raw.Recv(within(t, wait)); err == nil {
		t.Error("a closed socket receives")
	}
	if err := raw.Send(make([]byte, 60)); err == nil {
		t.Error("a closed socket sends")
	}
}
