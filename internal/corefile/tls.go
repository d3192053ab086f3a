// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// ParseTLS parses the words of the property tls: CERT KEY CA. It reads no file.
func ParseTLS(words []string) (endpoint.TLSFiles, error) {
	if len(words) != 3 {
		return endpoint.TLSFiles{}, fmt.Errorf("expected CERT KEY CA, got %d words", len(words))
	}
	return endpoint.TLSFiles{Cert: words[0], Key: words[1], CA: words[2]}, nil
}

// Peer is an endpoint that a property gives.
type Peer struct {
	Property string
	Endpoint endpoint.Endpoint
}

// CheckTLS returns an error if the files of the property tls can't be loaded, or if
// there are none and a peer needs them.
func (d *Directive) CheckTLS(files endpoint.TLSFiles, peers ...Peer) error {
	if files != (endpoint.TLSFiles{}) {
		if _, err := files.Config(false); err != nil {
			return d.Errorf("tls", "%w; expected PEM files CERT KEY CA", err)
		}
		return nil
	}
	for _, p := range peers {
		if p.Endpoint.TLS {
			return d.Errorf(p.Property, "%q: expected the property tls beside it", p.Endpoint)
		}
	}
	return nil
}
