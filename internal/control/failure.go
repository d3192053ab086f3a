// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/puntdns/puntdns/internal/control/api"
)

// FailureOf returns why a connection is down, by its error; nil for none.
func FailureOf(err error) *api.Failure {
	if err == nil {
		return nil
	}
	return &api.Failure{Cause: causeOf(err), Text: err.Error()}
}

func causeOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return api.CausePermission
	case errors.Is(err, fs.ErrNotExist):
		return api.CauseMissing
	case errors.Is(err, syscall.ECONNREFUSED):
		return api.CauseRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return api.CauseUnreachable
	case errors.Is(err, errors.ErrUnsupported):
		return api.CauseVersion
	case isTLS(err):
		return api.CauseTLS
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return api.CauseTimeout
	}
	return api.CauseOther
}

func isTLS(err error) bool {
	var (
		header    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
	)
	return errors.As(err, &header) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &invalid) || errors.As(err, &host)
}
