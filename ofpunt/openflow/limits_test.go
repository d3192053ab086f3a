// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"testing"
)

// TestEncodeRefuses: what cannot be encoded leaves the buffer as it was.
func TestEncodeRefuses(t *testing.T) {
	long := make([]byte, maxMessage)
	flow := func(v Version, actions ...Action) func(b []byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) {
			return AppendFlowMod(b, v, 1, &FlowMod{Actions: actions})
		}
	}
	tests := []struct {
		name   string
		encode func(b []byte) ([]byte, error)
		want   error // nil for any
	}{
		{"long user data", flow(V15, Controller2{UserData: long}), ErrTooLong},
		{"long frame", func(b []byte) ([]byte, error) { return AppendPacketOut(b, V15, 1, 1, nil, long) }, ErrTooLong},
		{"long bundle member", func(b []byte) ([]byte, error) {
			f := &FlowMod{Actions: []Action{Controller2{UserData: long[:maxMessage-100]}}}
			if _, err := AppendFlowMod(nil, V13, 1, f); err != nil {
				t.Errorf("it is too long by itself: %v", err)
			}
			return appendBundleAdd(b, V13, 1, 1, f)
		}, ErrTooLong},
		{"strict meter", func(b []byte) ([]byte, error) {
			return appendMeterMod(b, V15, 1, &MeterMod{Command: DeleteStrict})
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := test.encode([]byte("before"))
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if string(b) != "before" {
				t.Errorf("buffer % x", b)
			}
		})
	}
}
