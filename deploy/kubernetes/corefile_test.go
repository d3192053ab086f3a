// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// mebibytes reads a number with MiB behind it, as the runtime of Go does.
func mebibytes(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "MiB"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 20
}

// The variables that a Corefile takes are the addresses of Services that there are.
func TestVariables(t *testing.T) {
	eachOverlay(t, func(t *testing.T, overlay string, m *manifests) {
		there := append([]string{"kube-dns"}, expected[overlay].otherNames...)
		for _, s := range m.services {
			there = append(there, s.Name)
		}
		if links := m.daemonSet.Spec.Template.Spec.EnableServiceLinks; links == nil || !*links {
			t.Error("the pods are not told of Services")
		}
		var used []string
		for _, v := range regexp.MustCompile(`\{\$(\w+)_SERVICE_(?:HOST|PORT)\}`).FindAllStringSubmatch(m.corefile, -1) {
			if name := strings.ReplaceAll(strings.ToLower(v[1]), "_", "-"); !slices.Contains(used, name) {
				used = append(used, name)
			}
		}
		slices.Sort(there)
		slices.Sort(used)
		if !slices.Equal(there, used) {
			t.Errorf("the Corefile takes the addresses of %v, there are %v", used, there)
		}
		// What is asked is none of the resolver addresses, or it would be punted.
		if a, f := argument(m.corefile, "address"), strings.Contains(m.corefile, "forward . {$PUNTDNS_UPSTREAM_SERVICE_HOST}"); a != "{$KUBE_DNS_SERVICE_HOST}" || !f {
			t.Errorf("the guests ask %s, want that of kube-dns, and puntdns another", a)
		}
	})
}

// A start takes the Corefiles, with Services of both families, and refuses them where the pod
// is told of no Service.
func TestCorefiles(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Lack(t, "this needs root, for a network of its own")
	}
	binary := filepath.Join(t.TempDir(), "puntdns")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/puntdns")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	services := func(dns, upstream, southbound string) []string {
		return []string{"KUBE_DNS_SERVICE_HOST=" + dns, "PUNTDNS_UPSTREAM_SERVICE_HOST=" + upstream,
			"OVN_SB_SERVICE_HOST=" + southbound, "OVN_SB_SERVICE_PORT=6642"}
	}
	eachOverlay(t, func(t *testing.T, _ string, m *manifests) {
		file := filepath.Join(t.TempDir(), "Corefile")
		for _, tc := range []struct {
			name   string
			env    []string
			refuse bool
		}{
			{"IPv4", services("10.96.0.10", "10.96.77.1", "10.96.77.2"), false},
			{"IPv6", services("fd00:10:96::a", "fd00:10:96::77:1", "fd00:10:96::77:2"), false},
			{"no kube-dns", services("", "10.96.77.1", "10.96.77.2"), true},
			{"no upstream", services("10.96.0.10", "", "10.96.77.2"), true},
			{"no ovn-sb", services("10.96.0.10", "10.96.77.1", ""), strings.Contains(m.corefile, "OVN_SB")},
		} {
			t.Run(tc.name, func(t *testing.T) {
				if err := os.WriteFile(file, []byte(withKeys(t, m.corefile)), 0o600); err != nil {
					t.Fatal(err)
				}
				// In a network of its own, as in the pod: it tries the ports.
				cmd := exec.Command("unshare", "--net", binary, "-conf", file, "-check")
				// No daemon of this machine is one of the pod's.
				none := filepath.Join(t.TempDir(), "none")
				cmd.Env = slices.Concat(tc.env, []string{"OVS_RUNDIR=" + none, "OVN_RUNDIR=" + none})
				out, err := cmd.CombinedOutput()
				said := string(out)
				switch {
				case tc.refuse && err == nil:
					t.Errorf("it is taken:\n%s", said)
				case !tc.refuse && (err != nil || !strings.HasSuffix(said, ": OK\n")):
					t.Errorf("%v, want no error and no warning:\n%s", err, said)
				}
			})
		}
	})
}

// withKeys puts files that are there in the place of those of the secret.
func withKeys(t *testing.T, corefile string) string {
	t.Helper()
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: cert}, "cacert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(corefile, "/var/run/tls/", dir+"/")
}
