// SPDX-License-Identifier: Apache-2.0

package source

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // an algorithm of RFC 8945, section 6
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/miekg/dns"
)

// Key is a key for transactions (TSIG, RFC 8945).
type Key struct {
	// Name and Algorithm are fully qualified names in lower case.
	Name, Algorithm string
	// Secret is in base64.
	Secret string
}

// algorithms are those of HMAC (RFC 8945, section 6), but for MD5.
var algorithms = map[string]func() hash.Hash{
	dns.HmacSHA1:   sha1.New,
	dns.HmacSHA224: sha256.New224,
	dns.HmacSHA256: sha256.New,
	dns.HmacSHA384: sha512.New384,
	dns.HmacSHA512: sha512.New,
}

// NewKey returns a key, by the words of a Corefile.
func NewKey(name, algorithm, secret string) (Key, error) {
	k := Key{Name: dns.CanonicalName(name), Algorithm: dns.CanonicalName(algorithm), Secret: secret}
	if _, ok := dns.IsDomainName(name); !ok {
		return k, fmt.Errorf("%q: expected the name of a key", name)
	}
	if algorithms[k.Algorithm] == nil {
		return k, fmt.Errorf("%q: expected one of %v", algorithm, slices.Sorted(maps.Keys(algorithms)))
	}
	if b, err := base64.StdEncoding.DecodeString(secret); err != nil || len(b) == 0 {
		return k, fmt.Errorf("the secret of %s: expected base64", name)
	}
	return k, nil
}

// signer is the dns.TsigProvider of a key. It counts the messages that were signed by it: package
// dns takes those without a signature too.
type signer struct {
	key      Key
	verified atomic.Int64
}

// Generate implements dns.TsigProvider.
func (s *signer) Generate(msg []byte, t *dns.TSIG) ([]byte, error) {
	if dns.CanonicalName(t.Hdr.Name) != s.key.Name {
		return nil, dns.ErrSecret
	}
	if dns.CanonicalName(t.Algorithm) != s.key.Algorithm {
		return nil, dns.ErrKeyAlg
	}
	secret, err := base64.StdEncoding.DecodeString(s.key.Secret)
	if err != nil {
		return nil, err
	}
	h := hmac.New(algorithms[s.key.Algorithm], secret)
	h.Write(msg)
	return h.Sum(nil), nil
}

// Verify implements dns.TsigProvider.
func (s *signer) Verify(msg []byte, t *dns.TSIG) error {
	want, err := s.Generate(msg, t)
	if err != nil {
		return err
	}
	got, err := hex.DecodeString(t.MAC)
	if err != nil {
		return err
	}
	if !hmac.Equal(got, want) {
		return dns.ErrSig
	}
	s.verified.Add(1)
	return nil
}

// sign has m signed by the key, if there is one.
func (k Key) sign(m *dns.Msg) {
	const fudge = 300 // seconds, RFC 8945, section 10
	if k != (Key{}) {
		m.SetTsig(k.Name, k.Algorithm, fudge, 0)
		m.Extra[len(m.Extra)-1].(*dns.TSIG).TimeSigned = now()
	}
}
