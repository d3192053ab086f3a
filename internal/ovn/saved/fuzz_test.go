// SPDX-License-Identifier: Apache-2.0

package saved_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn/saved"
)

type jsonText = json.RawMessage

// sumAt is where a file has its checksum.
const sumAt = 8 + 4 + 8 + 8

// fileOf returns a file without its checksum. rows are those of all databases.
func fileOf(about, rows string) []byte {
	b := binary.BigEndian.AppendUint32([]byte("puntdns\x00"), 1)
	b = binary.BigEndian.AppendUint64(b, uint64(len(about)))
	b = binary.BigEndian.AppendUint64(b, uint64(len(rows)))
	return slices.Concat(b, make([]byte, sha256.Size), []byte(about), []byte(rows))
}

// sameJSON compares JSON by its values: Encode leaves out white space. JSON that is absent is not null.
var sameJSON = cmp.Transformer("JSON", func(m json.RawMessage) string {
	if m == nil {
		return "absent"
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
})

// FuzzDecode decodes a file with any content and the right checksum. A file that is not refused has the
// same content when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	good, err := saved.Encode(example(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:sumAt+sha256.Size])
	f.Add([]byte("puntdns\x00"))
	for _, database := range []string{`{}`, `{"Conditions":null}`, `{"Conditions":{ "a": "<" }}`, `{"Position":{"Where":{"DNS":null}}}`} {
		f.Add(fileOf(`{"Databases":[`+database+`]}`, "\x00"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= sumAt+sha256.Size {
			sum := sha256.Sum256(b[sumAt+sha256.Size:])
			copy(b[sumAt:], sum[:])
		}
		file, err := saved.Decode(b)
		if err != nil {
			return
		}
		again, err := saved.Encode(file)
		if err != nil {
			return // its time is none that JSON can have, for one
		}
		same, err := saved.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file.Databases, same.Databases, sameJSON); diff != "" {
			t.Error(diff)
		}
	})
}
