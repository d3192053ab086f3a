// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChassisName(t *testing.T) {
	tests := []struct {
		name, override string
		ids            map[string]string
		want           string
	}{
		{"nothing", "", nil, ""},
		{"system-id", "", map[string]string{"system-id": "hv1"}, "hv1"},
		{"the file before it", "file", map[string]string{"system-id": "hv1"}, "file"},
		{"the file alone", "file", nil, "file"},
		{"the bridge of all", "", map[string]string{"system-id": "hv1", "ovn-bridge": "br-int", "ovn-bridge-hv2": "br-int"}, "hv1"},
		{"the bridge of this one", "", map[string]string{"system-id": "hv1", "ovn-bridge-hv1": "br-int", "ovn-bridge-hv2": "br-int"}, "hv1"},
		{"another has the bridge", "", map[string]string{"system-id": "hv1", "ovn-bridge-hv1": "br-one", "ovn-bridge-hv2": "br-int"}, "hv2"},
		{"another has the bridge, not that of all", "", map[string]string{"system-id": "hv1", "ovn-bridge": "br-one", "ovn-bridge-hv2": "br-int"}, "hv2"},
		{"another than the file's has the bridge", "file", map[string]string{"ovn-bridge-file": "br-one", "ovn-bridge-hv2": "br-int"}, "hv2"},
		{"several have the bridge", "", map[string]string{"system-id": "hv1", "ovn-bridge": "br-one", "ovn-bridge-hv2": "br-int", "ovn-bridge-hv3": "br-int"}, "hv1"},
		{"nobody has the bridge", "", map[string]string{"system-id": "hv1", "ovn-bridge": "br-one"}, "hv1"},
		{"options of another meaning", "", map[string]string{"system-id": "hv1", "ovn-bridge": "br-one", "ovn-bridge-mappings": "br-int", "ovn-bridge-datapath-type": "br-int"}, "hv1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newChassisConfig(tt.ids).name("br-int", tt.override); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A node may have several addresses in tunnels, and several chassis.
func TestTunnelAddresses(t *testing.T) {
	got := tunnelAddresses(map[string]string{
		"ovn-encap-ip": "192.0.2.2, 192.0.2.1", "ovn-encap-ip-hv2": "2001:db8::1,192.0.2.1", "ovn-encap-ip-default": "192.0.2.2",
		"ovn-encap-type": "geneve", "system-id": "192.0.2.9", "ovn-encap-ip-hv3": "any",
	})
	if text := fmt.Sprint(got); text != "[192.0.2.1 192.0.2.2 2001:db8::1]" {
		t.Error(text)
	}
}

// The file is read as ovn-controller reads it: its first line, up to 63 bytes.
func TestSystemIDOverride(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OVN_SYSCONFDIR", dir)
	if got := systemIDOverride(); got != "" {
		t.Errorf("without a file: %q", got)
	}
	long := strings.Repeat("x", 70)
	for content, want := range map[string]string{
		"": "", "\n": "", "hv1": "hv1", "hv1\n": "hv1", "hv1\r\n": "hv1", "hv1\nhv2\n": "hv1", " hv 1 \n": " hv 1 ", long: long[:63],
	} {
		if err := os.WriteFile(filepath.Join(dir, "system-id-override"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := systemIDOverride(); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}
