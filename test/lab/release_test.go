// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

func TestParseVersion(t *testing.T) {
	for said, want := range map[string]string{
		"ovn-northd 23.03.1\nOpen vSwitch Library 3.1.0\n": "23.03.1",
		"ovs-vswitchd (Open vSwitch) 4.0.0\n":              "4.0.0",
		"ovn-northd 26.03.12-5":                            "26.03.12",
	} {
		if v, err := lab.ParseVersion(said); err != nil || v.String() != want {
			t.Errorf("%q: %s, %v, want %s", said, v, err, want)
		}
	}
	for _, said := range []string{"", "ovn-northd", "ovn-northd 23.03", "ovn-northd\n23.03.1"} {
		if v, err := lab.ParseVersion(said); err == nil {
			t.Errorf("%q: %s, want an error", said, v)
		}
	}
}

// What differs between releases begins with the release that has it.
func TestRelease(t *testing.T) {
	for _, r := range []struct {
		ovn, ovs                                        lab.Version
		edns, owned, ahead, shuffles, spoils, functions bool
	}{
		{ovn: lab.Version{22, 3, 8}, ovs: lab.Version{2, 17, 9}},
		{ovn: lab.Version{23, 3, 1}, ovs: lab.Version{3, 1, 0}},
		{ovn: lab.Version{23, 3, 3}, ovs: lab.Version{3, 1, 0}, edns: true},
		{ovn: lab.Version{23, 6, 2}, ovs: lab.Version{3, 1, 0}},
		{ovn: lab.Version{23, 6, 3}, ovs: lab.Version{3, 1, 0}, edns: true},
		{ovn: lab.Version{23, 9, 1}, ovs: lab.Version{3, 2, 0}},
		{ovn: lab.Version{23, 9, 2}, ovs: lab.Version{3, 2, 0}, edns: true},
		{ovn: lab.Version{24, 3, 0}, ovs: lab.Version{3, 3, 0}, edns: true, owned: true},
		{ovn: lab.Version{25, 9, 2}, ovs: lab.Version{3, 7, 1}, edns: true, owned: true, ahead: true},
		{ovn: lab.Version{26, 3, 0}, ovs: lab.Version{4, 0, 0}, edns: true, owned: true, ahead: true, shuffles: true, spoils: true, functions: true},
	} {
		release := lab.Release{OVN: r.ovn, Switch: r.ovs}
		got := []bool{release.DNSAnswersEDNS(), release.DNSRefusesOwned(), release.DNSReadsAhead(), release.DNSShuffles(), release.SwitchSpoilsHopByHop(), release.HasNetworkFunctions()}
		for i, want := range []bool{r.edns, r.owned, r.ahead, r.shuffles, r.spoils, r.functions} {
			if got[i] != want {
				t.Errorf("%s: %v, want EDNS %v, ovn-owned %v, keys ahead %v, shuffled %v, hop-by-hop spoiled %v, network functions %v", release, got, r.edns, r.owned, r.ahead, r.shuffles, r.spoils, r.functions)
				break
			}
		}
	}
}
