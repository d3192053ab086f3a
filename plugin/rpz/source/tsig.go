// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Key is a TSIG key (RFC 8945).
type Key struct {
	// Name and Algorithm are lower-case FQDNs.
	Name, Algorithm string
	// Secret is in base64.
	Secret string
}

// algorithms are RFC 8945, section 6, without MD5.
var algorithms = []string{dns.HmacSHA1, dns.HmacSHA224, dns.HmacSHA256, dns.HmacSHA384, dns.HmacSHA512}

// NewKey returns a key from the words of a Corefile.
func NewKey(name, algorithm, secret string) (Key, error) {
	k := Key{Name: dns.CanonicalName(name), Algorithm: dns.CanonicalName(algorithm), Secret: secret}
	if _, ok := dns.IsDomainName(name); !ok {
		return k, fmt.Errorf("%q: expected the name of a key", name)
	}
	if !slices.Contains(algorithms, k.Algorithm) {
		return k, fmt.Errorf("%q: expected one of %v", algorithm, algorithms)
	}
	if b, err := base64.StdEncoding.DecodeString(secret); err != nil || len(b) == 0 {
		return k, fmt.Errorf("the secret of %s: expected base64", name)
	}
	return k, nil
}

func (k Key) secrets() map[string]string {
	if k == (Key{}) {
		return nil
	}
	return map[string]string{k.Name: k.Secret}
}

// sign does nothing for a zero Key.
func (k Key) sign(m *dns.Msg) {
	const fudge = 300 // seconds, RFC 8945, section 10
	if k != (Key{}) {
		m.SetTsig(k.Name, k.Algorithm, fudge, time.Now().Unix())
	}
}
