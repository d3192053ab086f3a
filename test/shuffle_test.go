// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// Addresses are in the order of the row, unless the Corefile wants them in a random one.
func TestShuffle(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.52 10.0.1.51"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	const stored, other = "NOERROR 10.0.1.52 10.0.1.51", "NOERROR 10.0.1.51 10.0.1.52"
	for _, tt := range []struct {
		name, property, behind string
		random                 bool
	}{
		{name: "by default"},
		{name: "shuffle", property: "shuffle on", random: true},
		{name: "loadbalance", behind: "loadbalance", random: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, l, pipelineCorefile("", tt.property, tt.behind))
			seen := map[string]int{}
			ask := func() error {
				for range 20 {
					seen[vm.Dig("@"+resolver4, "db.internal").String()]++
				}
				if tt.random && (seen[stored] == 0 || seen[other] == 0) {
					return fmt.Errorf("only %v", seen)
				}
				return nil
			}
			l.Eventually("both orders", ask)
			for got := range seen {
				if got != stored && !(tt.random && got == other) {
					t.Errorf("got %s", got)
				}
			}
			s.endWell()
		})
	}
}
