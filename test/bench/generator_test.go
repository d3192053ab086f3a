// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The generator asks as often as it is told, and counts each query once, whatever else comes.
func TestGeneratorCounts(t *testing.T) {
	tests := []struct {
		name   string
		answer func(q []byte) [][]byte
	}{
		{"one answer each", func(q []byte) [][]byte { return [][]byte{q} }},
		{"each answer twice", func(q []byte) [][]byte { return [][]byte{q, q} }},
		{"beside them answers to nothing", func(q []byte) [][]byte { return [][]byte{{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1}, q} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pc, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer pc.Close()
			var asked atomic.Int64
			go func() {
				for b := make([]byte, 2048); ; {
					n, from, err := pc.ReadFrom(b)
					if err != nil {
						return // closed
					}
					asked.Add(1)
					for _, a := range tt.answer(b[:n]) {
						_, _ = pc.WriteTo(a, from)
					}
				}
			}()
			conn, err := net.Dial("udp", pc.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			q, err := new(dns.Msg).SetQuestion("vm.example.internal.", dns.TypeA).Pack()
			if err != nil {
				t.Fatal(err)
			}
			const most = 1000
			s := newStream(conn, [][]byte{q}, 0, 25, most)
			s.run(time.Now().Add(time.Minute))
			if s.err != nil || s.completed != most || s.lost != 0 || asked.Load() != most {
				t.Errorf("%d completed, %d lost of %d, the server got %d: %v", s.completed, s.lost, s.asked, asked.Load(), s.err)
			}
		})
	}
}
