// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// TLSParsers returns the parsers of the properties that set f: tls, with CERT KEY CA, and
// tls_servername. They read no file.
func TLSParsers(f *endpoint.TLSFiles) map[string]Parser {
	return map[string]Parser{
		"tls": func(words []string) error {
			if len(words) != 3 {
				return fmt.Errorf("expected CERT KEY CA, got %d words", len(words))
			}
			f.Cert, f.Key, f.CA = words[0], words[1], words[2]
			return nil
		},
		"tls_servername": func(words []string) error {
			if len(words) != 1 || !isHostName(words[0]) {
				return fmt.Errorf("%q: expected the host name in the certificate of the server", words)
			}
			f.ServerName = strings.TrimSuffix(words[0], ".")
			return nil
		},
	}
}

var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)

// isHostName reports whether a name can be in SNI: it is no address (RFC 6066, section 3).
func isHostName(name string) bool {
	_, err := netip.ParseAddr(name)
	return err != nil && len(name) <= 253 && hostName.MatchString(name)
}

// Peer is an endpoint that a property gives.
type Peer struct {
	Property string
	Endpoint endpoint.Endpoint
}

// CheckTLS returns an error if the files of the property tls can't be loaded, or if
// there are none and a peer needs them.
func (d *Directive) CheckTLS(files endpoint.TLSFiles, peers ...Peer) error {
	if files.ServerName != "" && files.Cert == "" {
		return d.Errorf("tls_servername", "%q: expected the property tls beside it", files.ServerName)
	}
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
