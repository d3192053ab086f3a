// SPDX-License-Identifier: Apache-2.0

package corefile

import "testing"

func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		name      string
		words     []string
		want, err string
	}{
		{"the first", []string{"on"}, "on", ""},
		{"the other", []string{"off"}, "off", ""},
		{"none", nil, "", `[]: expected on or off`},
		{"two", []string{"on", "off"}, "", `["on" "off"]: expected on or off`},
		{"another", []string{"ON"}, "ON", `"ON": expected on or off`},
		{"an empty one", []string{""}, "", `"": expected on or off`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Choice(tt.words, "on", "off")
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != tt.want || said != tt.err {
				t.Errorf("%q, %q, want %q, %q", got, said, tt.want, tt.err)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		word string
		want int64
		ok   bool
	}{
		{"64KiB", 64 << 10, true}, {"1MiB", 1 << 20, true}, {"4GiB", 4 << 30, true}, {"0KiB", 0, true},
		{"64", 0, false}, {"64kib", 0, false}, {"-1MiB", 0, false}, {"1.5GiB", 0, false}, {"MiB", 0, false}, {"99999999999GiB", 0, false},
	} {
		if got, err := ParseSize(tt.word); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: %d, %v", tt.word, got, err)
		}
	}
}

func TestCheckNetwork(t *testing.T) {
	for word, ok := range map[string]bool{
		"10.0.0.0/8": true, "fd00::/8": true, "10.1.2.3/8": true, "a.test": true, "0/25.2.0.192.in-addr.arpa": true, "10.0.0.1": true, "": true,
		"10.0.0.0/33": false, "fd00::/129": false, "10.0.0.0/": false, "10.0.0.0/a": false, "10.0.0.0/-1": false,
	} {
		if err := CheckNetwork(word); (err == nil) != ok {
			t.Errorf("%s: %v", word, err)
		}
	}
}
