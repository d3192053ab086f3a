// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsLicence goes with the certificates into the image.
const rootsLicence = `The root certificates in /etc/ssl/certs/ca-certificates.crt are those of Mozilla's NSS, taken from the Go
module golang.org/x/crypto/x509roots/fallback. Mozilla Public License 2.0, https://www.mozilla.org/MPL/2.0/.
`

// writeRoots writes the certificates that the image trusts. They come from a module in go.mod, so that
// they do not depend on the machine. The bundle's constraints have no form in PEM, so certificates with a
// constraint are left out.
func writeRoots(w io.Writer) error {
	n := 0
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "# %s\n", c.Subject); err != nil {
			return err
		}
		if err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errors.New("the bundle has no certificate")
	}
	return nil
}
