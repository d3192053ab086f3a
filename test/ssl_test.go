// SPDX-License-Identifier: Apache-2.0

package test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

func tlsProperty(f lab.TLSFiles) string { return "tls " + f.Cert + " " + f.Key + " " + f.CA }

// odd is what is done to a certificate before it is signed.
type odd []func(*x509.Certificate)

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

func named(host string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = []string{host} }
}

// Southbound by TLS: either side wants a certificate of the other that its
// authority has signed, and takes up those that are renewed on disk.
func TestTLSDatabase(t *testing.T) {
	t.Parallel()
	n := newDatabases(t, lab.Options{})
	const server, port = "tcp:127.0.0.1:6642", 6642
	gate := n.Gate("tcp:127.0.0.1:7642")
	gate.Open(server)
	endpoint := "ssl:" + strings.TrimPrefix(gate.Endpoint, "tcp:")
	ca, stranger := n.NewCA("ca"), n.NewCA("stranger")

	for _, tc := range []struct {
		name string
		// server and client are their authorities and what is odd of their
		// certificates; each believes in ca.
		serverBy, clientBy *lab.CA
		serverOdd          odd
		clientOdd          odd
		serverName         string // tls_servername, if any
		reason             string // empty if they get along
	}{
		{name: "right", serverBy: ca, clientBy: ca},
		// As with all programs of Open vSwitch, whose certificates name no host.
		{name: "server with another host name", serverBy: ca, clientBy: ca, serverOdd: odd{named("elsewhere.example")}},
		{name: "server with the wanted name", serverBy: ca, clientBy: ca, serverName: "sb.example", serverOdd: odd{named("sb.example")}},
		{name: "server without the wanted name", serverBy: ca, clientBy: ca, serverName: "sb.example", reason: `tls_servername "sb.example": x509: certificate `},
		{name: "server of an unknown authority", serverBy: stranger, clientBy: ca, reason: "certificate signed by unknown authority"},
		{name: "server expired", serverBy: ca, clientBy: ca, serverOdd: odd{expired}, reason: "certificate has expired"},
		{name: "client of an unknown authority", serverBy: ca, clientBy: stranger, reason: "unknown certificate authority"},
		{name: "client expired", serverBy: ca, clientBy: ca, clientOdd: odd{expired}, reason: "expired certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			issue := func(by *lab.CA, name string, odd ...func(*x509.Certificate)) lab.TLSFiles {
				f := by.Issue(name, odd...)
				ca.Trust(name)
				return f
			}
			n.ServeTLS("sb", port, issue(tc.serverBy, "sb", tc.serverOdd...))
			client := issue(tc.clientBy, "puntdns", tc.clientOdd...)
			properties := "southbound " + endpoint + "\n" + tlsProperty(client)
			var renewed odd
			if tc.serverName != "" {
				properties += "\ntls_servername " + tc.serverName
				renewed = odd{named(tc.serverName)}
			}
			before := len(gate.Came())
			s := launch(t, n.Lab, n.Node, strings.ReplaceAll(tc.name, " ", "-"), databasesCorefile(properties))
			if tc.reason != "" {
				s.ready(503)
				s.log(logNotSynced, "OVN_Southbound", endpoint, tc.reason)
				n.Eventually("it tries again", func() error {
					// Over more than a second, which an error might name.
					if again := len(gate.Came()) - before; again < 5 {
						return fmt.Errorf("%d connections", again)
					}
					return nil
				})
				s.toldTimes(t, 1, logNotSyncedAny)
				s.toldTimes(t, 1, logNotSynced, "OVN_Southbound", endpoint, tc.reason)
				// Renewed on disk, it will do.
				issue(ca, "puntdns")
				n.ServeTLS("sb", port, issue(ca, "sb", renewed...))
			}
			s.ready(200)
			s.readsFrom(endpoint)
			answers(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
			s.endWell()
		})
	}

	// The authority is replaced: first the files of both, then the server.
	t.Run("rotation", func(t *testing.T) {
		n.ServeTLS("sb", port, ca.Issue("sb"))
		client := ca.Issue("puntdns")
		s := serve(t, n.Lab, databasesCorefile("southbound "+endpoint+"\n"+tlsProperty(client)))
		next := n.NewCA("next")
		n.steady(t, func() {
			next.Issue("puntdns")
			s.stays(200)
			s.readsAgain(func() { n.ServeTLS("sb", port, next.Issue("sb")) })
			s.ready(200)
			follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR 10.0.1.101", func() {
				n.NBCTL("--wait=sb", "set", "DNS", n.moving, `records={"moving.internal"="10.0.1.101"}`)
			})
		})
		s.toldTimes(t, 1, logNotSyncedAny)
		s.toldTimes(t, 1, logNotSynced, "OVN_Southbound", endpoint, "the server closed the connection")
		s.toldTimes(t, 0, logReload)
		s.endWell()
	})
}

// The switch and its local database by TLS, with either side calling: neither
// takes the other while one of them has a wrong certificate, and both do once it is
// renewed on disk.
func TestTLSSwitch(t *testing.T) {
	t.Parallel()
	n := newDatabases(t, lab.Options{})
	ca, stranger := n.NewCA("ca"), n.NewCA("stranger")
	files := ca.Issue("node")
	n.Node.VSCTL("--no-wait", "set-ssl", files.Key, files.Cert, files.CA)
	n.Node.ServeTLS(6640, files)
	database, flows := n.Gate("tcp:127.0.0.1:7640"), n.Gate("tcp:127.0.0.1:7653")
	database.Open("tcp:127.0.0.1:6640")
	flows.Open("tcp:127.0.0.1:6653")
	corefile := func(openflow string, client lab.TLSFiles) string {
		return `
. {
    ofpunt br-int {
        openflow ` + openflow + `
        ovsdb ssl:127.0.0.1:7640
        ` + tlsProperty(client) + `
    }
    ovnhosts {
        southbound $SB
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    errors
}`
	}
	for _, tc := range []struct {
		name, openflow string
		controller     []string // in Open vSwitch
	}{
		{"ssl", "ssl:127.0.0.1:7653", []string{"set-controller", "br-int", "pssl:6653:127.0.0.1"}},
		{"pssl", "pssl:6654:127.0.0.1", []string{
			"set-controller", "br-int", "ssl:127.0.0.1:6654",
			"--", "set", "Controller", "br-int", "connection_mode=out-of-band", "max_backoff=1000",
		}},
	} {
		n.Node.VSCTL(tc.controller...)
		// A bridge that gets its first controller to call drops all flows, and
		// ovn-controller does not notice.
		n.Node.Restart("ovn-controller")
		n.Sync()
		for _, wrong := range []struct {
			name      string
			by, trust *lab.CA // of puntdns
			reason    string
			// once is set where puntdns itself refuses: of a refusal by the other
			// side, which comes after the handshake, the connection's end may be
			// noticed first.
			once bool
		}{
			{"unknown to puntdns", ca, stranger, "x509: certificate signed by unknown authority", true},
			{"knows not puntdns", stranger, ca, "tls: ", false},
		} {
			t.Run(tc.name+" "+wrong.name, func(t *testing.T) {
				client := wrong.by.Issue("puntdns")
				wrong.trust.Trust("puntdns")
				called, asked := len(flows.Came()), len(database.Came())
				s := launch(t, n.Lab, n.Node, tc.name+"-"+wrong.by.Name, corefile(tc.openflow, client))
				s.ready(503)
				s.log(logSwitchFails, tc.openflow, wrong.reason)
				s.log(logLocalFails, "ssl:127.0.0.1:7640", wrong.reason)
				n.Eventually("both are tried again", func() error {
					of, db := len(flows.Came())-called, len(database.Came())-asked
					if db < 3 || tc.name == "ssl" && of < 3 {
						return fmt.Errorf("%d and %d connections", of, db)
					}
					return nil
				})
				if wrong.once {
					s.toldTimes(t, 1, logLocalFails, "ssl:127.0.0.1:7640", wrong.reason)
				}
				if wrong.once && tc.name == "ssl" {
					s.toldTimes(t, 1, logSwitchFails, tc.openflow, wrong.reason)
				}
				ca.Issue("puntdns")
				s.ready(200)
				s.reaches(1, "coredns_ofpunt_connected")
				s.reaches(1, "coredns_ofpunt_local_database_up")
				answers(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
				answers(t, n.blue, "db.internal.", "NOERROR 10.0.2.99")
				s.endWell()
			})
		}
	}

	// No program of Open vSwitch does without a certificate, but somebody else may
	// call.
	t.Run("pssl no certificate", func(t *testing.T) {
		s := launch(t, n.Lab, n.Node, "pssl-nobody", corefile("pssl:6655:127.0.0.1", ca.Issue("puntdns")))
		// call says hello, as a switch does, and returns what it is told.
		call := func(certificates ...tls.Certificate) ([]byte, error) {
			var conn net.Conn
			// The socket is open for one caller at a time.
			n.Eventually("a connection", func() (err error) {
				conn, err = n.Node.Dial(within(t, wait), "tcp", "127.0.0.1:6655")
				return err
			})
			c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: certificates})
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
				t.Fatal(err)
			}
			told := make([]byte, 8)
			_, err := c.Write([]byte{6, 0, 0, 8, 0, 0, 0, 1})
			if err == nil {
				_, err = io.ReadFull(c, told)
			}
			return told, err
		}
		for range 3 {
			if told, err := call(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("without a certificate: told %x, %v", told, err)
			}
		}
		s.log(logSwitchFails, "pssl:6655:127.0.0.1", "tls: client didn't provide a certificate")
		s.reaches(0, "coredns_ofpunt_connected")
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		n.Eventually("a hello with one", func() error {
			told, err := call(pair)
			if err == nil && (told[0] != 6 || told[1] != 0) {
				err = fmt.Errorf("told %x", told)
			}
			return err
		})
		s.endWell()
	})
}
