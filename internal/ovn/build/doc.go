// SPDX-License-Identifier: Apache-2.0

// Package build makes networks of rows, and router scopes of networks. Package ovndb says which networks have
// changed.
package build
