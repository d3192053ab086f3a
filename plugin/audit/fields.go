// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/rcode"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/escape"
)

// key is the quoted name with its comma and colon. value appends a JSON value.
type field struct {
	key   []byte
	value func(b []byte, rec *recorder) []byte
}

func newField(name string, value func(b []byte, rec *recorder) []byte) field {
	return field{append(escape.AppendJSON([]byte{','}, name), ':'), value}
}

func text(of func(rec *recorder) string) func([]byte, *recorder) []byte {
	return func(b []byte, rec *recorder) []byte { return escape.AppendJSON(b, of(rec)) }
}

func address(of func(rec *recorder) net.Addr) func([]byte, *recorder) []byte {
	return func(b []byte, rec *recorder) []byte {
		b = append(b, '"')
		if a, ok := netip.AddrFromSlice(ipOf(of(rec))); ok {
			b = a.Unmap().AppendTo(b)
		}
		return append(b, '"')
	}
}

func port(of func(rec *recorder) net.Addr) func([]byte, *recorder) []byte {
	return func(b []byte, rec *recorder) []byte {
		n := 0
		switch a := of(rec).(type) {
		case *net.UDPAddr:
			n = a.Port
		case *net.TCPAddr:
			n = a.Port
		}
		return strconv.AppendInt(b, int64(n), 10)
	}
}

func ipOf(a net.Addr) net.IP {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.IP
	case *net.TCPAddr:
		return a.IP
	}
	return nil
}

func client(rec *recorder) net.Addr { return rec.RemoteAddr() }
func server(rec *recorder) net.Addr { return rec.LocalAddr() }

// README.md documents the fields.
var known = map[string]func(b []byte, rec *recorder) []byte{
	"bridge": text(func(rec *recorder) string { return rec.origin.Bridge }),
	"in_port": func(b []byte, rec *recorder) []byte {
		return strconv.AppendUint(b, uint64(rec.origin.InPort), 10)
	},
	"vlan": func(b []byte, rec *recorder) []byte { return strconv.AppendUint(b, uint64(rec.origin.VLAN), 10) },
	"network": func(b []byte, rec *recorder) []byte {
		b = append(b, '"')
		if !rec.origin.Network.IsZero() {
			b = rec.origin.Network.AppendTo(b)
		}
		return append(b, '"')
	},
	"switch": text(func(rec *recorder) string { return rec.origin.Switch }),
	"port":   text(func(rec *recorder) string { return rec.origin.Port }),
	"mac": text(func(rec *recorder) string {
		if !rec.punted {
			return ""
		}
		return rec.origin.MAC.String()
	}),
	"client":      address(client),
	"client_port": port(client),
	"server":      address(server),
	"server_port": port(server),
	"protocol": text(func(rec *recorder) string {
		if _, ok := rec.RemoteAddr().(*net.TCPAddr); ok {
			return "tcp"
		}
		return "udp"
	}),
	"view": text(func(rec *recorder) string {
		view, _ := rec.ctx.Value(dnsserver.ViewKey{}).(string)
		return view
	}),
	"id":          func(b []byte, rec *recorder) []byte { return strconv.AppendUint(b, uint64(rec.id), 10) },
	"name":        text(func(rec *recorder) string { return rec.question.Name }),
	"type":        text(func(rec *recorder) string { return dns.Type(rec.question.Qtype).String() }),
	"class":       text(func(rec *recorder) string { return dns.Class(rec.question.Qclass).String() }),
	"query_flags": queryFlags,
	"rcode": text(func(rec *recorder) string {
		if !rec.answered {
			return ""
		}
		return rcode.ToString(rec.rcode)
	}),
	"flags": func(b []byte, rec *recorder) []byte {
		return append(rec.answerFlags.append(append(b, '"')), '"')
	},
	"answers": func(b []byte, rec *recorder) []byte { return strconv.AppendInt(b, int64(rec.answers), 10) },
	"records": func(b []byte, rec *recorder) []byte {
		if rec.records == nil {
			return append(b, "[]"...)
		}
		return append(b, rec.records...)
	},
	"duration": func(b []byte, rec *recorder) []byte {
		us := max(rec.duration/time.Microsecond, 0)
		b = strconv.AppendInt(b, int64(us/1e6), 10)
		dot := len(b)
		b = strconv.AppendInt(b, int64(1e6+us%1e6), 10)
		b[dot] = '.' // replaces the leading 1
		return b
	},
	"result": text(func(rec *recorder) string { return rec.result }),
	"reason": text(func(rec *recorder) string { return rec.reason }),
	"source": source,
}

// The word default, and the fields without the property.
var defaultFields = []string{
	"bridge", "network", "switch", "port", "client", "client_port", "server", "server_port", "protocol",
	"id", "name", "type", "class", "rcode", "flags", "answers", "duration", "result", "reason", "source",
}

func queryFlags(b []byte, rec *recorder) []byte {
	b = append(b, '"')
	before := len(b)
	b = rec.flags.append(b)
	if rec.dnssecOK {
		if len(b) > before {
			b = append(b, ',')
		}
		b = append(b, "do"...)
	}
	return append(b, '"')
}

// Records of a line, and bytes of a record.
const (
	mostRecords  = 16
	mostOfRecord = 512
)

func appendRecords(b []byte, answer []dns.RR) []byte {
	b = append(b, '[')
	for i, rr := range answer[:min(len(answer), mostRecords)] {
		if i > 0 {
			b = append(b, ',')
		}
		text := dns.Type(rr.Header().Rrtype).String() + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
		if len(text) > mostOfRecord {
			text = text[:mostOfRecord] + "..."
		}
		b = escape.AppendJSON(b, text)
	}
	return append(b, ']')
}

// rpz comes first: a rule may have replaced another plugin's answer.
var sources = []struct{ label, of string }{
	{"rpz/answer", "rpz/"},
	{"egress/answer", "egress/"},
	{"ovnhosts/answer", "ovnhosts/"},
	{"neutronhosts/answer", "neutronhosts/"},
	{"forward/upstream", "forward/"},
	{"ovnforward/upstream", "ovnforward/"},
}

// source appends the plugin that answered, "" without a label.
func source(b []byte, rec *recorder) []byte {
	if rec.written {
		for i := range sources {
			s := &sources[i]
			if f := metadata.ValueFunc(rec.ctx, s.label); f != nil {
				if v := f(); v != "" {
					return escape.AppendJSON(b, s.of+v)
				}
			}
		}
	}
	return append(b, `""`...)
}

func labelField(name, label string) field {
	return newField(name, text(func(rec *recorder) string {
		if f := metadata.ValueFunc(rec.ctx, label); f != nil {
			return f()
		}
		return ""
	}))
}

var (
	fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	labelWord = regexp.MustCompile(`^([^=]*)=\{/([^{}]+)\}$`)
)

// parseFields parses known fields, default, and NAME={/LABEL}.
func parseFields(words []string) (fields []field, err error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("expected default, names of fields, or NAME={/LABEL}")
	}
	given := map[string]bool{"seq": true, "event": true, "time": true}
	add := func(name string, f field) error {
		if given[name] {
			return fmt.Errorf("%q: there is a field of that name already, expected another name", name)
		}
		given[name] = true
		fields = append(fields, f)
		return nil
	}
	for _, word := range words {
		m := labelWord.FindStringSubmatch(word)
		switch {
		case word == "default":
			for _, name := range defaultFields {
				if err := add(name, newField(name, known[name])); err != nil {
					return nil, err
				}
			}
		case m != nil && fieldName.MatchString(m[1]) && metadata.IsLabel(m[2]):
			err = add(m[1], labelField(m[1], m[2]))
		case known[word] != nil:
			err = add(word, newField(word, known[word]))
		default:
			err = fmt.Errorf("%q: expected default, NAME={/LABEL}, or one of %v", word, slices.Sorted(maps.Keys(known)))
		}
		if err != nil {
			return nil, err
		}
	}
	return fields, nil
}
