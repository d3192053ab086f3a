// SPDX-License-Identifier: Apache-2.0

package openflow

import "testing"

// What ovn-controller's flow of a port loads, as Open vSwitch 3.1 tells it, and other ways to say so.
func TestLoaded(t *testing.T) {
	apply := func(actions string) string {
		n := len(unhex(t, actions)) + 8
		return "0004" + string("0123456789abcdef"[n>>12]) + string("0123456789abcdef"[n>>8&15]) + string("0123456789abcdef"[n>>4&15]) + string("0123456789abcdef"[n&15]) + "00000000" + actions
	}
	const (
		metadata = "0019 0010 80000408 0000000000000005"                  // set_field:5->metadata
		reg14    = "0019 0010 00011c04 00000007 00000000"                 // set_field:7->reg14
		xreg7    = "0019 0010 80010e08 0000000700000000"                  // both halves
		masked   = "0019 0018 80010f10 0000000700000000 ffffffff00000000" // 20+ bytes, the half that is reg14
		load2    = "ffff 0018 00002320 0021 000000000000 00011c04 00000007"
		load     = "ffff 0018 00002320 0007 001f 00011c04 0000000000000007"
		loadMeta = "ffff 0018 00002320 0007 003f 80000408 0000000000000005"
		loadPart = "ffff 0018 00002320 0007 000f 00011c04 0000000000000007"
		resubmit = "ffff 0010 00002320 000e fff8 08 000000"
	)
	for _, tt := range []struct {
		name, instructions string
		want               bool
	}{
		{"set_field", apply(metadata + reg14 + resubmit), true},
		{"a wide register", apply(metadata + xreg7 + resubmit), true},
		{"NXAST_REG_LOAD2", apply(metadata + load2), true},
		{"NXAST_REG_LOAD", apply(load + loadMeta), true},
		{"a part of the register", apply(metadata + loadPart), false},
		{"a part of it afterwards", apply(metadata + reg14 + loadPart), false},
		{"no register", apply(metadata + resubmit), false},
		{"no metadata", apply(reg14), false},
		{"no actions", "", false},
		{"truncated", apply(metadata + reg14)[:60], false},
		{"an action of no length", apply(metadata + reg14 + "0019 0000 00000000"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			datapath, port, ok := Loaded(unhex(t, tt.instructions), 14)
			if ok != tt.want || ok && (datapath != 5 || port != 7) {
				t.Errorf("%d, %d, %v", datapath, port, ok)
			}
		})
	}
	if _, port, ok := Loaded(unhex(t, apply(metadata+masked)), 14); ok && port != 7 {
		t.Error("a masked register")
	}
}

// The flow by which ovn-controller marks a packet, or clears the mark, as Open vSwitch 3.1 tells it.
func TestSetsBits(t *testing.T) {
	for instructions, want := range map[string]bool{
		"0004 0020 00000000 0019 0018 00011508 00001000 00001000 0000 0000 0000 0000": true, // set_field:0x1000/0x1000->reg10
		"0004 0020 00000000 0019 0018 00011508 00000000 00001000 0000 0000 0000 0000": false,
		"0004 0020 00000000 0019 0018 00011d08 00001000 00001000 0000 0000 0000 0000": false, // reg14
		"0004 0020 00000000 ffff 0018 00002320 0007 0300 00011404 0000000000000001":   true,  // load:1->reg10[12]
		"0004 0020 00000000 ffff 0018 00002320 0007 0340 00011404 0000000000000001":   false, // load:1->reg10[13]
		"0004 0020 00000000 0019 0018 00011508":                                       false,
		"":                                                                            false,
	} {
		if got := SetsBits(unhex(t, instructions), 10, 1<<12); got != want {
			t.Errorf("%s: %v", instructions, got)
		}
	}
}

// Whether a flow sends packets to a table, as Open vSwitch 3.1 tells it.
func TestResubmits(t *testing.T) {
	const resubmit = "ffff 0010 00002320 000e fff8 11 000000"
	for instructions, want := range map[string]bool{
		"0004 0018 00000000" + resubmit: true,
		"0004 0038 00000000 ffff 0020 00002320 0025 000000000000 0003000f 00000007 0000000000067900" + resubmit: true, // controller, resubmit
		"0004 0028 00000000 ffff 0020 00002320 0025 000000000000 0003000f 00000007 0000000000067900":            false,
		"0004 0018 00000000 ffff 0010 00002320 000e":                                                            false,
		"": false,
	} {
		if got := Resubmits(unhex(t, instructions)); got != want {
			t.Errorf("%s: %v", instructions, got)
		}
	}
}

// A note as Open vSwitch 3.1 tells it.
func TestNoteOf(t *testing.T) {
	const note = "ffff 0018 00002320 0008 612e62 00000000000000000000 00"
	for instructions, want := range map[string]string{
		"0004 0020 00000000" + note: "a.b",
		"0004 0038 00000000 0019 0018 00011508 00001000 00001000 0000 0000 0000 0000" + note: "a.b",
		"0004 0018 00000000 ffff 0010 00002320 0008 000000000000":                            "",
		"0004 0018 00000000 ffff 0010 00002320 000e fff8 08 000000":                          "none",
		"0004 0020 00000000 ffff 0018 00002320 0008":                                         "none",
		"": "none",
	} {
		got, has := NoteOf(unhex(t, instructions))
		if !has {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", instructions, got, want)
		}
	}
}

func FuzzLoaded(f *testing.F) {
	add(f, "0004 0028 00000000 0019 0010 80000408 0000000000000005 0019 0010 00011c04 00000007 00000000",
		"0004 0038 00000000 ffff 0018 00002320 0007 001f 00011c04 0000000000000007 ffff 0018 00002320 0021 000000000000 00011c04 00000007")
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, ok := Loaded(b, 14); ok && len(b) < 8+16+16 {
			t.Errorf("%d bytes load two fields", len(b))
		}
	})
}
