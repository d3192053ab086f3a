// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const testID = "00112233-4455-6677-8899-aabbccddeeff"

var testTable = &table{
	name: "T",
	columns: map[string]column{
		"s":  {index: 0, key: kindString},
		"i":  {index: 1, key: kindInteger},
		"b":  {index: 2, key: kindBoolean},
		"u":  {index: 3, key: kindUUID},
		"ss": {index: 4, key: kindString, many: true},
		"us": {index: 5, key: kindUUID, many: true},
		"m":  {index: 6, key: kindString, value: kindString, many: true},
		"im": {index: 7, key: kindInteger, value: kindUUID, many: true},
	},
	width: 8,
}

// decode returns what the decoder makes of input: rows, messages, and the end.
func decode(r io.Reader) (events []string) { return decodeRows(r, maxRow) }

// decodeRows is decode with rows of that many bytes at most.
func decodeRows(r io.Reader, maxRow int) (events []string) {
	return decodeOf(&monitor{id: mainID, tables: map[string]*table{"T": testTable}}, r, maxRow)
}

// decodeSince is decode for a monitor that monitor_cond_since has started.
func decodeSince(r io.Reader) (events []string) {
	m := &monitor{id: mainID, tables: map[string]*table{"T": testTable}}
	m.begin = func(found bool) { events = append(events, fmt.Sprint("found ", found)) }
	rest := decodeOf(m, r, maxRow)
	return append(events, rest...)
}

func decodeOf(m *monitor, r io.Reader, maxRow int) (events []string) {
	d := decoder{maxRow: maxRow, scanner: newScanner(r), updates: []*monitor{m}, initial: m}
	m.row = func(table string, id UUID, op Op, row *Row) error {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s %s", op, table, id)
		for col := range row.cells {
			if !row.Has(col) {
				continue
			}
			fmt.Fprintf(&b, " %d:", col)
			if row.Diff(col) {
				b.WriteByte('~')
			}
			width := int(row.cells[col].width)
			for i := range width * row.Len(col) {
				fmt.Fprintf(&b, "%q/%d,", row.bytesAt(col, i), row.at(col, i).num)
			}
		}
		events = append(events, b.String())
		return nil
	}
	for {
		msg, err := d.next()
		if err != nil {
			if err != io.EOF {
				events = append(events, "error")
			}
			return events
		}
		event := fmt.Sprintf("%s %s %s %s %s %v", msg.method, msg.id, msg.params, msg.result, msg.err, msg.rows != nil)
		if msg.last != (UUID{}) {
			event += " " + msg.last.String()
		}
		events = append(events, event)
	}
}

var testMessages = []string{
	`{"id":2,"result":{"T":{"` + testID + `":{"initial":{"s":"a\u00e9\ud83d\ude00","i":-5,"b":true,"u":["uuid","` + testID + `"]}}}},"error":null}`,
	`{"result":{"T":{}},"id":2,"error":null}`,
	`{"id":null,"method":"update2","params":["puntdns",{"T":{"` + testID + `":{"modify":{"ss":["set",["p","r"]],"us":["set",[["uuid","` + testID + `"]]],"m":["map",[["a","1"],["b","2"]]],"im":["map",[[1,["uuid","` + testID + `"]]]]}},"` + testID + `":{"delete":null}}}]}`,
	`{"params":["puntdns",{"T":{"` + testID + `":{"insert":{"ss":"one","us":["uuid","` + testID + `"],"m":["map",[]]}}}}],"method":"update2","id":null}`,
	` { "method" : "echo" , "params" : [ 1 , "x" ] , "id" : "echo" } {"id":1,"result":[],"error":null}`,
	`{"id":9,"error":"unknown method"}`,
	`{"id":10,"error":{"syntax":"[\"nocol\",\"==\",0]","details":"No column nocol in table Thing.","error":"unknown column"}}`,
	`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"i":99999999999999999999}}}}}`,
	`{"id":1,"x":{"y":[{},[],"]}",1e5,nul`,
}

func TestDecode(t *testing.T) {
	id, err := ParseUUID(testID)
	if err != nil {
		t.Fatal(err)
	}
	q := fmt.Sprintf("%q", id[:])
	for i, want := range [][]string{
		{"insert T " + testID + ` 0:"aé😀"/0, 1:""/-5, 2:""/1, 3:` + q + "/0,", " 2   null true"},
		{" 2   null true"},
		{
			"modify T " + testID + ` 4:~"p"/0,"r"/0, 5:~` + q + `/0, 6:~"a"/0,"1"/0,"b"/0,"2"/0, 7:~""/1,` + q + "/0,",
			"delete T " + testID,
			"update2 null    true",
		},
		{"insert T " + testID + ` 4:"one"/0, 5:` + q + "/0, 6:", "update2 null    true"},
		{`echo "echo" [1,"x"]   false`, " 1  [] null false"},
		{` 9   "unknown method" false`},
		{` 10   {"syntax":"[\"nocol\",\"==\",0]","details":"No column nocol in table Thing.","error":"unknown column"} false`},
		{"error"},
		{"error"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if diff := cmp.Diff(want, decode(strings.NewReader(testMessages[i]))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var sinceMessages = []string{
	`{"id":2,"result":[false,"` + testID + `",{"T":{"` + testID + `":{"initial":{"i":7}}}}],"error":null}`,
	` { "result" : [ true , "` + testID + `" , { "T" : { "` + testID + `" : { "delete" : null } } } ] , "id" : 2 } `,
	`{"id":null,"method":"update3","params":["puntdns","` + testID + `",{"T":{"` + testID + `":{"modify":{"i":8}}}}]}`,
	`{"params":["puntdns","` + testID + `",{}],"method":"update3","id":null}`,
	`{"id":2,"result":{"T":{}},"error":null}`,
	`{"id":2,"result":null,"error":"unknown method"}`,
	`{"id":2,"result":["x","` + testID + `",{}]}`,
	`{"id":2,"result":[true,"x",{}]}`,
	`{"id":2,"result":[true,"` + testID + `",{},{}]}`,
	`{"id":2,"result":[true,"` + testID + `"]}`,
	`{"id":null,"method":"update3","params":["puntdns","x",{}]}`,
}

func TestDecodeSince(t *testing.T) {
	for i, want := range [][]string{
		{"found false", "insert T " + testID + ` 1:""/7,`, " 2   null true " + testID},
		{"found true", "delete T " + testID, " 2    true " + testID},
		{"modify T " + testID + ` 1:""/8,`, "update3 null    true " + testID},
		{"update3 null    true " + testID},
		{` 2  {"T":{}} null false`},
		{` 2  null "unknown method" false`},
		{"error"},
		{"error"},
		{"found true", "error"},
		{"error"},
		{"error"},
	} {
		if diff := cmp.Diff(want, decodeSince(strings.NewReader(sinceMessages[i]))); diff != "" {
			t.Errorf("%s: %s", sinceMessages[i], diff)
		}
		if diff := cmp.Diff(want, decodeSince(iotest.OneByteReader(strings.NewReader(sinceMessages[i])))); diff != "" {
			t.Errorf("%s, byte by byte: %s", sinceMessages[i], diff)
		}
	}
	// A monitor that another request has started gets no such result.
	if got := decode(strings.NewReader(sinceMessages[0])); len(got) != 1 || strings.Contains(got[0], "true") {
		t.Errorf("%q", got)
	}
}

// A read may end at any byte.
func TestDecodeSplit(t *testing.T) {
	for _, text := range testMessages {
		want := decode(strings.NewReader(text))
		if diff := cmp.Diff(want, decode(iotest.OneByteReader(strings.NewReader(text)))); diff != "" {
			t.Error(diff)
		}
		for i := range len(text) {
			r := io.MultiReader(strings.NewReader(text[:i]), strings.NewReader(text[i:]))
			if diff := cmp.Diff(want, decode(r)); diff != "" {
				t.Errorf("split at %d: %s", i, diff)
			}
		}
	}
}

// A message that ends early is an error, not an end.
func TestDecodeTruncated(t *testing.T) {
	for _, text := range testMessages[:4] {
		for i := 1; i < len(text); i++ {
			got := decode(strings.NewReader(text[:i]))
			if len(got) == 0 || got[len(got)-1] != "error" {
				t.Errorf("%s: %q", text[:i], got)
			}
		}
	}
}

type endless struct{ pattern string }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.pattern) <= len(p) {
		n += copy(p[n:], e.pattern)
	}
	return n, nil
}

// Endless input is an error before it takes much memory.
func TestDecodeEndless(t *testing.T) {
	t.Parallel()
	if s := newSession(t.Context(), New(Config{}), nil, nil); s.dec.maxRow != maxRow {
		t.Errorf("a connection takes rows of %d bytes, want %d", s.dec.maxRow, maxRow)
	}
	for name, text := range map[string][2]string{
		"row":    {`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"s":"`, "aaaaaaaaaaaaaaaa"},
		"set":    {`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"ss":["set",["a"`, `,"aaaa"`},
		"empty":  {`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"ss":["set",["a"`, `,""`},
		"key":    {`{"`, "aaaaaaaaaaaaaaaa"},
		"number": {`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"i":`, "1"},
		"params": {`{"method":"x","params":[1`, ",1"},
		"result": {`{"result":[1`, ",1"},
		"depth":  {`{"x":`, "["},
	} {
		t.Run(name, func(t *testing.T) {
			got := decodeRows(io.MultiReader(strings.NewReader(text[0]), endless{text[1]}), maxRow/16)
			if diff := cmp.Diff([]string{"error"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	boom := errors.New("boom")
	d := decoder{maxRow: maxRow, scanner: newScanner(io.MultiReader(strings.NewReader(`{"id":`), iotest.ErrReader(boom)))}
	if _, err := d.next(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, text := range append(sinceMessages, testMessages...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, decode := range []func(io.Reader) []string{decode, decodeSince} {
			whole := decode(bytes.NewReader(text))
			split := decode(iotest.OneByteReader(bytes.NewReader(text)))
			if diff := cmp.Diff(whole, split); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// The scanner takes what encoding/json takes, and as the same.
func FuzzTokens(f *testing.F) {
	for _, text := range append([]string{
		`"a\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\ud83d\ude00"`, `"\ude00"`, `""`, `"\x"`,
		`-5`, `1e3`, `null`, `[1 2]`, `{"a":1}`, `[}`, `1 `, `"a`,
	}, testMessages...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// A comma after it, since a number ends where something else begins.
		input := append(bytes.Clone(text), ',')
		value, err := newScanner(bytes.NewReader(input)).raw(1 << 20)
		var want json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(text))
		wantErr := dec.Decode(&want)
		if err == nil && (wantErr != nil || !bytes.Equal(value, want)) {
			t.Fatalf("raw: %q, encoding/json: %q, %v", value, want, wantErr)
		}
		if err != nil && json.Valid(text) && !strings.Contains(err.Error(), "deep") {
			t.Fatalf("raw refuses %q: %v", text, err)
		}
		str, err := newScanner(bytes.NewReader(text)).appendString(nil, 1<<20)
		if err == nil && utf8.Valid(str) {
			// The text may go on after the string.
			var want string
			if err := json.NewDecoder(bytes.NewReader(text)).Decode(&want); err != nil || want != string(str) {
				t.Fatalf("string: %q, encoding/json: %q, %v", str, want, err)
			}
		}
	})
}

// BenchmarkInitial decodes the initial contents of 10,000 rows with the columns
// that are wanted of Port_Binding.
func BenchmarkInitial(b *testing.B) {
	const rows = 10_000
	t := &table{name: "Port_Binding", columns: map[string]column{
		"logical_port": {index: 0, key: kindString},
		"datapath":     {index: 1, key: kindUUID},
		"tunnel_key":   {index: 2, key: kindInteger},
		"type":         {index: 3, key: kindString},
		"mac":          {index: 4, key: kindString, many: true},
		"options":      {index: 5, key: kindString, value: kindString, many: true},
		"external_ids": {index: 6, key: kindString, value: kindString, many: true},
		"chassis":      {index: 7, key: kindUUID},
	}, width: 8}
	var text bytes.Buffer
	text.WriteString(`{"id":2,"result":{"Port_Binding":{`)
	for i := range rows {
		if i > 0 {
			text.WriteByte(',')
		}
		id := UUID{0: byte(i >> 8), 1: byte(i)}
		fmt.Fprintf(&text, `"%s":{"initial":{"logical_port":"%s","datapath":["uuid","%s"],"tunnel_key":%d,`+
			`"mac":["set",["0a:00:00:00:%02x:%02x 10.0.%d.%d"]],"chassis":["uuid","%s"],`+
			`"options":["map",[["hostname","vm-%d"],["requested-chassis","node-%d"]]],`+
			`"external_ids":["map",[["neutron:cidrs","10.0.%d.%d/16"],["neutron:device_id","%s"],["neutron:port_name","port-%d"],["neutron:project_id","0123456789abcdef0123456789abcdef"]]]}}`,
			id, id, id, i, i>>8, i&255, i>>8, i&255, id, i, i%100, i>>8, i&255, id, i)
	}
	text.WriteString(`}},"error":null}`)
	seen := 0
	m := &monitor{id: mainID, tables: map[string]*table{"Port_Binding": t}, row: func(string, UUID, Op, *Row) error {
		seen++
		return nil
	}}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		d := decoder{maxRow: maxRow, scanner: newScanner(bytes.NewReader(text.Bytes())), initial: m}
		if _, err := d.next(); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seen), "ns/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(seen), "B/row")
}
