// SPDX-License-Identifier: Apache-2.0

package placement

import "testing"

func TestReadUserData(t *testing.T) {
	for _, to := range []Onward{Nowhere, 0, 30, 254} {
		if got, ok := ReadUserData(appendUserData(nil, to)); got != to || !ok {
			t.Errorf("onward %d is read as %d, %v", to, got, ok)
		}
	}
	for _, b := range []string{"", "puntdns", "puntdns\x02", "puntdns\x01\x1e\x00", "xpuntdns\x01"} {
		if to, ok := ReadUserData([]byte(b)); ok {
			t.Errorf("%q is read as onward %d", b, to)
		}
	}
}
