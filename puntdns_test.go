// SPDX-License-Identifier: Apache-2.0

package puntdns

import (
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/plugins"
)

func TestCheckDirectives(t *testing.T) {
	standard := plugins.Directives
	for _, tt := range []struct {
		name  string
		names []string
		want  string
	}{
		{"the standard list", standard, ""},
		{"none", nil, "it is empty"},
		{"one that is not linked", append(slices.Clone(standard), "hello"), "no package that is linked registers hello"},
		{"an order that mixes tenants", []string{"ofpunt", "cache", "ovnhosts"}, "ovnhosts is behind cache"},
	} {
		err := checkDirectives(tt.names)
		if (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
