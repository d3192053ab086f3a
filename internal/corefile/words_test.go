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
