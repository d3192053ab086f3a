// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// recipe says what an image is made of.
type recipe struct {
	source  string // the folder of the project
	folder  string // with what make release-files makes
	arch    string // as Go calls it
	version string
	name    string    // with a tag
	time    time.Time // of all files, and of the image
}

// image returns the image: one layer with all files, and how to run them.
func (r *recipe) image() (v1.Image, error) {
	content, err := r.layer()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	licences, err := os.ReadFile(filepath.Join(r.folder, "licences", r.arch, "SPDX"))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: r.arch, OS: "linux", Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			// By number: the image has no /etc/passwd. The user needs access to the sockets that are
			// mounted, see puntdns.service.
			User:       "65532:65532",
			Entrypoint: []string{"/puntdns"},
			Cmd:        []string{"-conf", "/etc/puntdns/Corefile"},
			WorkingDir: "/",
			// The check asks the socket of `control`, so the Corefile needs that line.
			Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/puntctl", "status"}},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "puntdns",
				"org.opencontainers.image.description": "CoreDNS for the guests of Open vSwitch and OVN, without a socket in their networks",
				"org.opencontainers.image.version":     r.version,
				"org.opencontainers.image.licenses":    strings.TrimSpace(string(licences)),
				"org.opencontainers.image.source":      "https://github.com/puntdns/puntdns",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "deploy/image of puntdns"}})
}

// layer returns the files of the image as a tar file.
func (r *recipe) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		path, from string // from is a file, the target of a link, a text, or empty for a folder
		mode       int64
	}{
		{"etc/", "", 0o755},
		{"etc/puntdns/", "", 0o755},
		{"etc/puntdns/Corefile", filepath.Join(r.source, "Corefile.example"), 0o644},
		{"etc/ssl/", "", 0o755},
		{"etc/ssl/certs/", "", 0o755},
		{"etc/ssl/certs/ca-certificates.crt", filepath.Join(r.folder, "ca-certificates.crt"), 0o644},
		{"licenses/", "", 0o755},
		{"licenses/LICENSE", filepath.Join(r.source, "LICENSE"), 0o644},
		{"licenses/THIRD-PARTY-LICENSES", filepath.Join(r.folder, "licences", r.arch, "THIRD-PARTY-LICENSES"), 0o644},
		{"licenses/ca-certificates", rootsLicence, 0o644},
		{"puntctl", "puntdns", 0o777},
		{"puntdns", filepath.Join(r.folder, r.arch, "puntdns"), 0o755},
	} {
		h := &tar.Header{Name: f.path, Typeflag: tar.TypeReg, Mode: f.mode, ModTime: r.time, Format: tar.FormatUSTAR}
		var content []byte
		switch {
		case f.from == "":
			h.Typeflag = tar.TypeDir
		case f.path == "puntctl":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.from
		case f.from == rootsLicence:
			content, h.Size = []byte(f.from), int64(len(f.from))
		default:
			var err error
			if content, err = os.ReadFile(f.from); err != nil {
				return nil, err
			}
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // writes the end of the archive
		return nil, err
	}
	return out.Bytes(), nil
}
