// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"regexp"
	"testing"
)

// Bridges that read the same databases must be of one chassis: the guests of another
// would be lost, or be served on both.
func TestReaders(t *testing.T) {
	config := Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
	open := func(bridge string) *Reader {
		r, err := Open(config, bridge)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := open("br-a"), open("br-b")
	if !a.Shares(b) {
		t.Fatal("the bridges have a Source each")
	}
	check := func(r *Reader, chassis, want string) {
		t.Helper()
		r.SetLocal(chassis, nil, 0)
		got := ""
		if err := r.Conflict(); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s for %s: %q, want %q", r.bridge, chassis, got, want)
		}
	}
	check(a, "hv1", "")
	check(b, "hv1", "")
	check(b, "hv2", `^bridge br-a .* "hv1"`)
	check(b, "hv1", "")
	// The chassis gets another name, and each bridge learns it by itself.
	check(a, "hv9", `^bridge br-b .* "hv1"`)
	check(b, "hv1", "") // another view, before the bridge learns the name
	check(b, "hv9", "")
	if err := a.Conflict(); err != nil {
		t.Errorf("br-a, once both bridges know the name: %v", err)
	}
	check(b, "hv1", `^bridge br-a .* "hv9"`)
	check(a, "hv1", "")
	check(b, "hv1", "")
	again := open("br-a") // a reload
	check(again, "hv1", "")
	a.Close()
	again.Close()
	check(b, "hv2", "")
	c := open("br-c")
	defer c.Close()
	check(c, "hv3", `^bridge br-b .* "hv2"`)
	b.Close()
	if err := c.Conflict(); err != nil || c.Source.chassis != "hv3" {
		t.Errorf("br-c, once the other bridge is gone: %v, the chassis is %q", err, c.Source.chassis)
	}
}
