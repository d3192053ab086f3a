// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// What a system test pays for its lab.
func BenchmarkLab(b *testing.B) {
	for _, bm := range []struct {
		name    string
		opts    lab.Options
		tenants []string
	}{
		{"empty", lab.Options{}, nil},
		{"plain", lab.Options{Plain: true}, nil},
		{"three nodes", lab.Options{Nodes: 3}, nil},
		{"two tenants with two guests each", lab.Options{}, []string{"red", "blue"}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l := lab.New(b, bm.opts)
				for _, name := range bm.tenants {
					tenant(l, name)
				}
				if !bm.opts.Plain {
					l.Sync()
				}
				l.Close()
			}
		})
	}
}
