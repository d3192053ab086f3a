// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
)

// A server with a certificate for each name (SNI), as a proxy in front of several databases has.
func TestServerName(t *testing.T) {
	ca := endpointtest.NewCA(t)
	certificates := map[string]*tls.Certificate{}
	load := func(name string, hosts ...string) {
		f := ca.Issue(t, t.TempDir(), name, func(c *x509.Certificate) { c.DNSNames = hosts })
		c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		certificates[name] = &c
	}
	load("sb.example", "sb.example")
	load("nb.example", "nb.example", "*.nb.example")
	load("localhost", "localhost")
	load("wrong.example", "another.example")
	load("plain.example") // as ovs-pki(8) makes it
	load("")
	cfg := config(t, ca.Issue(t, t.TempDir(), "proxy"), true)
	cfg.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if strings.HasSuffix(h.ServerName, ".nb.example") {
			return certificates["nb.example"], nil
		}
		return certificates[h.ServerName], nil
	}
	byAddress := serve(t, cfg)
	byName := byAddress
	_, port, err := net.SplitHostPort(byAddress.Address)
	if err != nil {
		t.Fatal(err)
	}
	byName.Address = net.JoinHostPort("localhost", port)

	client := ca.Issue(t, t.TempDir(), "client")
	for _, tt := range []struct {
		name       string
		endpoint   endpoint.Endpoint
		serverName string
		want       string // the server's name in its certificate
		wantErr    string
	}{
		{"an address, and no name", byAddress, "", "", ""},
		{"a host name, and no name: it is sent, and not compared", byName, "", "localhost", ""},
		{"a name", byAddress, "sb.example", "sb.example", ""},
		{"a name beside a host name", byName, "nb.example", "nb.example", ""},
		{"a name that a wildcard covers", byAddress, "db1.nb.example", "nb.example", ""},
		{"a certificate for another name", byAddress, "wrong.example", "", `tls_servername "wrong.example": x509: certificate is valid for another.example, not wrong.example`},
		{"a certificate without host names", byAddress, "plain.example", "", `tls_servername "plain.example": x509: certificate `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := client
			files.ServerName = tt.serverName
			server, _, err := ask(t, tt.endpoint, config(t, files, false))
			switch {
			case tt.wantErr == "" && (err != nil || server != tt.want):
				t.Errorf("%q, %v, want %q", server, err, tt.want)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("%q, %v, want an error with %s", server, err, tt.wantErr)
			}
		})
	}
}
