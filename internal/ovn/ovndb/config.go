// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// Config selects the databases to read, and which of their networks.
type Config struct {
	// Southbound and Northbound are connection methods (Endpoint.String), several for one cluster. One of the
	// two may be empty.
	Southbound, Northbound []string
	TLS                    endpoint.TLSFiles
	Monitor                Monitor
	// WarmStart requires Southbound.
	WarmStart WarmStart
	// Log receives each change of state once; nil logs nothing.
	Log Logger
}

type Monitor uint8

const (
	// Local reads the networks of local guests and of Requests.Network. With Northbound alone,
	// Reader.SetLocal lists the local guests.
	Local Monitor = iota
	All
)

// Logger is implemented by CoreDNS's clog.P.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

type silent struct{}

func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}

var errWarmStart = errors.New("expected the southbound database with a saved snapshot, since nothing proves whose the ports of a northbound one still are")

var errNoDatabase = errors.New("expected endpoints of the southbound or the northbound database")

// Key is equal for configurations that share a Source.
func (c Config) Key() string {
	return fmt.Sprintf("%q %q %q %d %q %s", c.Southbound, c.Northbound, c.TLS, c.Monitor, c.WarmStart.Folder, c.WarmStart.MaxAge)
}

// Endpoints names the databases in metrics and in the status. Different configurations may have equal
// endpoints.
func (c Config) Endpoints() string {
	return strings.Join(slices.Concat(c.Southbound, c.Northbound), ",")
}

// Differences returns the ovnhosts properties in which two configurations differ.
func (c Config) Differences(other Config) (all []string) {
	tls, otherTLS := c.TLS, other.TLS
	tls.ServerName, otherTLS.ServerName = "", ""
	for _, p := range []struct {
		property string
		same     bool
	}{
		{"southbound", slices.Equal(c.Southbound, other.Southbound)},
		{"northbound", slices.Equal(c.Northbound, other.Northbound)},
		{"monitor", c.Monitor == other.Monitor},
		{"tls", tls == otherTLS},
		{"tls_servername", c.TLS.ServerName == other.TLS.ServerName},
		{"snapshot", c.WarmStart == other.WarmStart},
	} {
		if !p.same {
			all = append(all, p.property)
		}
	}
	return all
}

func (c Config) parse() (sb, nb []endpoint.Endpoint, err error) {
	if len(c.Southbound)+len(c.Northbound) == 0 {
		return nil, nil, errNoDatabase
	}
	if c.WarmStart.Folder != "" && len(c.Southbound) == 0 {
		return nil, nil, errWarmStart
	}
	if sb, err = parseEndpoints("southbound", c.Southbound); err != nil {
		return nil, nil, err
	}
	if nb, err = parseEndpoints("northbound", c.Northbound); err != nil {
		return nil, nil, err
	}
	for _, e := range append(sb[:len(sb):len(sb)], nb...) {
		if e.TLS && c.TLS == (endpoint.TLSFiles{}) {
			return nil, nil, fmt.Errorf("%s: expected a certificate, a key and CA certificates for ssl", e)
		}
	}
	return sb, nb, nil
}

func parseEndpoints(database string, list []string) ([]endpoint.Endpoint, error) {
	all, err := endpoint.ParseEach(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", database, err)
	}
	return all, nil
}
