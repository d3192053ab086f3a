// SPDX-License-Identifier: Apache-2.0

package openflow

import "testing"

func BenchmarkPacketInDecode(b *testing.B) {
	for name, msg := range map[string]string{"1.3": sentPunt13, "1.5": sentPunt15} {
		b.Run(name, func(b *testing.B) {
			msg := unhex(b, msg)
			var p PacketIn
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Decode(msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendPacketOut(b *testing.B) {
	for _, v := range []Version{V13, V15} {
		b.Run(v.String(), func(b *testing.B) {
			actions := AppendActions(nil, v, Output{PortInPort})
			var err error
			frame := make([]byte, 200)
			buf := make([]byte, 0, 512)
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = AppendPacketOut(buf[:0], v, 1, 5, actions, frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendResume(b *testing.B) {
	var p PacketIn
	if err := p.Decode(unhex(b, sentPunt15)); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 512)
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = p.AppendResume(buf[:0], V15, 1, 30); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendFlowMod(b *testing.B) {
	f := &FlowMod{Table: 29, Priority: 200, Match: everyField, Actions: []Action{Resubmit{Table: 200}}}
	buf := make([]byte, 0, 512)
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = AppendFlowMod(buf[:0], V15, 1, f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDispatch is what the reader does for each packet-in.
func BenchmarkDispatch(b *testing.B) {
	msg := unhex(b, sentPunt15)
	c := &Conn{version: V15}
	n := 0
	h := &Handler{PacketIn: func(*PacketIn) { n++ }}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.dispatch(msg, h); err != nil {
			b.Fatal(err)
		}
	}
}
