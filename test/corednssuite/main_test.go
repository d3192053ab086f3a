// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

// A directive that only stock CoreDNS has follows the one that it follows there.
func TestMerged(t *testing.T) {
	got := merged(strings.Fields("root ofpunt ready cache forward"), strings.Fields("meta root geoip ready cache k8s etcd forward on"))
	if want := strings.Fields("meta root geoip ofpunt ready cache k8s etcd forward on"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Only a test that passes without the plugins of puntdns counts. One that is accepted must not pass.
func TestDifferences(t *testing.T) {
	defer func() { accepted = map[string]string{} }()
	accepted = map[string]string{"TestB": "a reason", "TestE": "another"}
	stock := results{"TestA": passed, "TestB": passed, "TestC": "fail", "TestC output": "why", "TestD": "skip", "TestE": passed}
	for _, tt := range []struct {
		a, e string
		want string // in what is printed
		fail bool
	}{
		{passed, "fail", "TestB: accepted: a reason\n", false},
		{"fail", "fail", "TestA: fail with the plugins of puntdns\n", true},
		{"", "fail", "TestA:  with the plugins of puntdns\n", true},
		{passed, passed, "TestE passes, remove it from accepted (another)\n", true},
	} {
		var out strings.Builder
		err := differences(&out, stock, results{"TestA": tt.a, "TestB": "fail", "TestC": "fail", "TestD": "skip", "TestE": tt.e})
		if (err != nil) != tt.fail || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%+v: %v\n%s", tt, err, out.String())
		}
	}
}
