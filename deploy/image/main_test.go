// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// archives makes an archive for each architecture, of programs that are none.
func archives(t *testing.T) (all []string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		for path, text := range map[string]string{
			arch + "/puntdns": "program for " + arch, "ca-certificates.crt": "roots",
			"licences/" + arch + "/SPDX": "Apache-2.0 AND MIT\n", "licences/" + arch + "/THIRD-PARTY-LICENSES": "texts",
		} {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(dir, arch+".tar")
		if err := run(nil, []string{"archive", "-arch", arch, "-version", "1.2.3", "-name", "registry.example/puntdns:1.2.3", "-out", out, "-source", "../..", dir}); err != nil {
			t.Fatal(err)
		}
		all = append(all, out)
	}
	return all
}

// TestArchive has the library read an archive in both of its forms.
func TestArchive(t *testing.T) {
	archive := archives(t)[1]
	tag, err := name.NewTag("registry.example/puntdns:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	asDocker, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(asDocker); err != nil {
		t.Errorf("as docker reads it: %v", err)
	}
	folder := t.TempDir()
	extract(t, archive, folder)
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("as an image layout: %v", err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []v1.Image{asDocker, image} {
		config, err := of.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		got := fmt.Sprint(config.OS, config.Architecture, config.Created.Unix(), c.User, c.Entrypoint, c.Cmd, c.Healthcheck.Test, c.Labels["org.opencontainers.image.licenses"])
		if want := fmt.Sprint("linux", "arm64", 1700000000, "65532:65532", []string{"/puntdns"}, []string{"-conf", "/etc/puntdns/Corefile"}, []string{"CMD", "/puntctl", "status"}, "Apache-2.0 AND MIT"); got != want {
			t.Errorf("it runs as %s, want %s", got, want)
		}
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	uncompressed, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(uncompressed)
	if err != nil {
		t.Fatal(err)
	}
	// GNU tar wants whole blocks and two empty ones at the end; Go's reader does not.
	if end := make([]byte, 1024); len(content)%512 != 0 || !bytes.HasSuffix(content, end) {
		t.Errorf("the layer has %d bytes, without the end of an archive", len(content))
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s belongs to %d:%d and is of %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", h.FileInfo().Mode(), h.Name, h.Linkname)))
	}
	want := []string{
		"-rw-r--r-- etc/puntdns/Corefile", "-rw-r--r-- etc/ssl/certs/ca-certificates.crt", "-rw-r--r-- licenses/LICENSE",
		"-rw-r--r-- licenses/THIRD-PARTY-LICENSES", "-rw-r--r-- licenses/ca-certificates", "-rwxr-xr-x puntdns", "Lrwxrwxrwx puntctl puntdns",
		"drwxr-xr-x etc/", "drwxr-xr-x etc/puntdns/", "drwxr-xr-x etc/ssl/", "drwxr-xr-x etc/ssl/certs/", "drwxr-xr-x licenses/",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// extract writes the files of an archive into a folder.
func extract(t *testing.T, archive, folder string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.MkdirAll(filepath.Join(folder, "blobs/sha256"), 0o700); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.FromSlash(h.Name)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchiveAgain makes the archives twice, and wants the same bytes.
func TestArchiveAgain(t *testing.T) {
	one, two := archives(t), archives(t)
	for i := range one {
		a, err := os.ReadFile(one[i])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(two[i])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s has other bytes the second time", filepath.Base(one[i]))
		}
	}
}

// TestPush pushes to a registry, and pulls the image of each architecture by the digest that was printed.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	files := archives(t)
	var digest, pushed bytes.Buffer
	to := strings.TrimPrefix(server.URL, "http://") + "/puntdns/puntdns:1.2.3"
	if err := run(&digest, append([]string{"digest"}, files...)); err != nil {
		t.Fatal(err)
	}
	if err := run(&pushed, append([]string{"push", to}, files...)); err != nil {
		t.Fatal(err)
	}
	by, err := name.NewDigest(strings.TrimSpace(pushed.String()))
	if err != nil {
		t.Fatal(err)
	}
	if by.DigestStr()+"\n" != digest.String() {
		t.Errorf("pushed %s, digest says %s", by, digest.String())
	}
	tag, err := name.NewTag(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []name.Reference{by, tag} {
		for _, arch := range []string{"amd64", "arm64"} {
			image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil || config.Architecture != arch {
				t.Errorf("%s: %+v, %v, want %s", ref, config, err, arch)
			}
			if err := validate.Image(image); err != nil {
				t.Errorf("%s, %s: %v", ref, arch, err)
			}
		}
	}
}

// TestPushDamaged wants an archive with other bytes refused.
func TestPushDamaged(t *testing.T) {
	file := archives(t)[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"User":"65532:65532"`), []byte(`"User":"00000:00000"`), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(io.Discard, []string{"push", "registry.invalid/puntdns:1.2.3", file}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("got %v, want the archive refused", err)
	}
}

func TestRoots(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, []string{"roots"}); err != nil {
		t.Fatal(err)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(out.Bytes()) || bytes.Count(out.Bytes(), []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("expected more than 50 certificates:\n%s", out.String())
	}
}
