// SPDX-License-Identifier: Apache-2.0

package saved_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn/saved"
)

type jsonText = json.RawMessage

// Whatever a file has, its checksum being right: it is refused, or it is read to the same again.
func FuzzDecode(f *testing.F) {
	good, err := saved.Encode(example(f))
	if err != nil {
		f.Fatal(err)
	}
	const sumAt = 8 + 4 + 8 + 8
	f.Add(good)
	f.Add(good[:sumAt+sha256.Size])
	f.Add([]byte("puntdns\x00"))
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
		if diff := cmp.Diff(file.Databases, same.Databases); diff != "" {
			t.Error(diff)
		}
	})
}
