// SPDX-License-Identifier: Apache-2.0

// Package build makes networks from rows, and router scopes from networks. Package ovndb decides which networks
// to build.
package build
