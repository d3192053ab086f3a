// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/miekg/dns"
)

// subjects are names of all kinds: below the zone and outside, with and without records.
var subjects = []string{"db.example.", "nosuch.example.", "www.outside.", "nosuch.outside."}

// subjectTypes are asked of each subject.
var subjectTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypePTR, dns.TypeSRV, dns.TypeHTTPS,
	dns.TypeDS, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeHINFO, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILB,
	dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY, 0, 65280, 65535,
}

// single are further names and types.
var single = []struct {
	name  string
	qtype uint16
	class uint16 // 0 for IN
}{
	{"example.", dns.TypeA, 0}, {"example.", dns.TypeSOA, 0}, {"example.", dns.TypeNS, 0}, {"example.", dns.TypeDS, 0},
	{"example.", dns.TypeDNSKEY, 0}, {"example.", dns.TypeANY, 0}, {"ns.dns.example.", dns.TypeA, 0},
	{"shop.apps.example.", dns.TypeA, 0}, {"a.b.apps.example.", dns.TypeA, 0}, {"shop.apps.example.", dns.TypeTXT, 0},
	{"*.apps.example.", dns.TypeA, 0}, {"apps.example.", dns.TypeA, 0}, {"empty.example.", dns.TypeA, 0}, {"x.empty.example.", dns.TypeA, 0},
	{"www.example.", dns.TypeA, 0}, {"www.example.", dns.TypeAAAA, 0}, {"www.example.", dns.TypeCNAME, 0}, {"www.example.", dns.TypeANY, 0}, {"www.example.", dns.TypeSRV, 0},
	{"out.example.", dns.TypeA, 0}, {"out.example.", dns.TypeCNAME, 0}, {"out.example.", dns.TypeTXT, 0},
	{"miss.example.", dns.TypeA, 0}, {"loop.example.", dns.TypeA, 0}, {"loop.example.", dns.TypeCNAME, 0},
	{"many.example.", dns.TypeA, 0}, {"huge.example.", dns.TypeA, 0}, {"_http._tcp.example.", dns.TypeSRV, 0},
	{"alias.outside.", dns.TypeA, 0}, {"txt.outside.", dns.TypeTXT, 0},
	{".", dns.TypeNS, 0}, {".", dns.TypeA, 0}, {"dB.eXample.", dns.TypeA, 0}, {"wWw.oUtside.", dns.TypeA, 0},
	{"localhost.", dns.TypeA, 0}, {"1.0.0.127.in-addr.arpa.", dns.TypePTR, 0}, {"1.0.168.192.in-addr.arpa.", dns.TypePTR, 0},
	{"9.0.0.10.in-addr.arpa.", dns.TypePTR, 0}, {"x.onion.", dns.TypeA, 0}, {"x.invalid.", dns.TypeA, 0}, {"x.home.arpa.", dns.TypeA, 0},
	{"version.bind.", dns.TypeTXT, dns.ClassCHAOS}, {"version.server.", dns.TypeTXT, dns.ClassCHAOS}, {"hostname.bind.", dns.TypeTXT, dns.ClassCHAOS},
	{"id.server.", dns.TypeTXT, dns.ClassCHAOS}, {"trustanchor.unbound.", dns.TypeTXT, dns.ClassCHAOS},
}

// change makes a query an unusual one.
type change struct {
	name string
	do   func(m *dns.Msg)
	// bytes changes the message in wire format. It may be nil.
	bytes func(b []byte) []byte
}

// changes are made to the query for the addresses of each subject.
var changes = slices.Concat(
	opcodes(), classes(), flags(), edns(),
	[]change{
		{name: "no question", do: func(m *dns.Msg) { m.Question = nil }},
		{name: "two questions", do: func(m *dns.Msg) { m.Question = slices.Repeat(m.Question, 2) }},
		{name: "a record in the answer", do: func(m *dns.Msg) { m.Answer = []dns.RR{extraRecord} }},
		{name: "a record in the authority", do: func(m *dns.Msg) { m.Ns = []dns.RR{extraRecord} }},
		{name: "a record in the additional", do: func(m *dns.Msg) { m.Extra = []dns.RR{extraRecord} }},
		{name: "QDCOUNT 0", bytes: func(b []byte) []byte { return put(b, 4, 0) }},
		{name: "QDCOUNT 2", bytes: func(b []byte) []byte { return put(b, 4, 2) }},
		{name: "ANCOUNT 1", bytes: func(b []byte) []byte { return put(b, 6, 1) }},
		{name: "ARCOUNT 1", bytes: func(b []byte) []byte { return put(b, 10, 1) }},
		{name: "bytes behind", bytes: func(b []byte) []byte { return append(b, 1, 2, 3) }},
		{name: "cut in the question", bytes: func(b []byte) []byte { return b[:len(b)-3] }},
		{name: "the header alone", bytes: func(b []byte) []byte { return b[:12] }},
		{name: "half a header", bytes: func(b []byte) []byte { return b[:6] }},
		{name: "a pointer to itself", bytes: func(b []byte) []byte { return append(b[:12], 0xc0, 12, 0, 1, 0, 1) }},
		{name: "a label of type 0x40", bytes: func(b []byte) []byte { return append(b[:12], 0x41, 'a', 0, 0, 1, 0, 1) }},
	},
)

var extraRecord = &dns.A{Hdr: dns.RR_Header{Name: "extra.outside.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, 66)}

// put overwrites 16 bits.
func put(b []byte, at int, v uint16) []byte {
	binary.BigEndian.PutUint16(b[at:], v)
	return b
}

func opcodes() (all []change) {
	for _, opcode := range []int{1, 2, 3, 4, 5, 6, 15} {
		all = append(all, change{name: fmt.Sprintf("opcode %d", opcode), do: func(m *dns.Msg) { m.Opcode = opcode }})
	}
	return all
}

func classes() (all []change) {
	for _, class := range []uint16{0, dns.ClassCSNET, dns.ClassCHAOS, dns.ClassHESIOD, dns.ClassNONE, dns.ClassANY, 4711} {
		all = append(all, change{name: fmt.Sprintf("class %d", class), do: func(m *dns.Msg) { m.Question[0].Qclass = class }})
	}
	return all
}

func flags() (all []change) {
	for _, f := range []struct {
		name string
		bits uint16
	}{
		{"no RD", 0}, {"CD", 0x110}, {"AD", 0x120}, {"Z", 0x140}, {"RA", 0x180}, {"TC", 0x300}, {"AA", 0x500}, {"RCODE 3", 0x103}, {"QR", 0x8100}, {"all flags but QR", 0x7ff & 0xfff0},
	} {
		all = append(all, change{name: f.name, bytes: func(b []byte) []byte { return put(b, 2, f.bits) }})
	}
	return all
}

func edns() (all []change) {
	opt := func(size uint16, version uint8, flags uint16, options ...dns.EDNS0) *dns.OPT {
		return &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: size, Ttl: uint32(version)<<16 | uint32(flags)}, Option: options}
	}
	add := func(name string, opts ...*dns.OPT) {
		all = append(all, change{name: name, do: func(m *dns.Msg) {
			for _, o := range opts {
				m.Extra = append(m.Extra, o)
			}
		}})
	}
	for _, size := range []uint16{0, 100, 512, 1232, 4096, 65535} {
		add(fmt.Sprintf("EDNS size %d", size), opt(size, 0, 0))
	}
	add("EDNS DO", opt(1232, 0, 0x8000))
	add("EDNS unknown flags", opt(1232, 0, 0x4001))
	add("EDNS version 1", opt(1232, 1, 0))
	add("EDNS version 255 with DO", opt(1232, 255, 0x8000))
	add("EDNS twice", opt(1232, 0, 0), opt(1232, 0, 0))
	for _, option := range []dns.EDNS0{
		&dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"},
		&dns.EDNS0_LOCAL{Code: dns.EDNS0COOKIE, Data: []byte{1, 2, 3}},
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)},
		&dns.EDNS0_PADDING{Padding: make([]byte, 16)}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE},
		&dns.EDNS0_EXPIRE{Code: dns.EDNS0EXPIRE, Empty: true}, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte{1, 2}},
	} {
		name := fmt.Sprintf("EDNS option %d", option.Option())
		if local, ok := option.(*dns.EDNS0_LOCAL); ok && local.Code == dns.EDNS0COOKIE {
			name = "EDNS option 10 of 3 bytes"
		}
		add(name, opt(1232, 0, 0, option))
	}
	return all
}

// questions returns all questions. Each name and type is asked over UDP and TCP, and with EDNS and DO. Each change is made
// over UDP.
func questions() (all []question) {
	add := func(name, network string, m *dns.Msg, change func([]byte) []byte) {
		m.Id = uint16(len(all) + 1)
		b, err := m.Pack()
		if err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a literal of this file
		}
		if change != nil {
			b = change(b)
		}
		all = append(all, question{name, network, b})
	}
	plain := func(name string, qtype, class uint16) {
		m := new(dns.Msg).SetQuestion(name, qtype)
		m.Question[0].Qclass = class
		text := fmt.Sprintf("%s %s %s", name, dns.Class(class), dns.Type(qtype))
		add(text, "udp", m, nil)
		add(text+" TCP", "tcp", m, nil)
		add(text+" EDNS DO", "udp", m.Copy().SetEdns0(1232, true), nil)
	}
	for _, name := range subjects {
		for _, qtype := range subjectTypes {
			plain(name, qtype, dns.ClassINET)
		}
		for _, c := range changes {
			m := new(dns.Msg).SetQuestion(name, dns.TypeA)
			if c.do != nil {
				c.do(m)
			}
			add(name+" with "+c.name, "udp", m, c.bytes)
		}
	}
	for _, s := range single {
		plain(s.name, s.qtype, max(s.class, dns.ClassINET))
	}
	return all
}
