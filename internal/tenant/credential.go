// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"net/http"
	"strings"
)

// CredentialKind names the kind of a request's credential. Providers allow some requests with a
// plan's token only, and others with a key only. The result reveals nothing of the credential
// itself.
func CredentialKind(r *http.Request) string {
	for _, name := range credentials {
		for _, v := range r.Header[name] {
			switch key := bare(v); {
			case key == "":
			case strings.HasPrefix(key, "sk-ant-oat"):
				return "plan token"
			case strings.HasPrefix(key, "eyJ") && strings.Count(key, ".") == 2, strings.HasPrefix(key, "ya29."): // a JWT, as of a ChatGPT account, or Google's token
				return "account token"
			default:
				return "API key"
			}
		}
	}
	for _, name := range parameters {
		if strings.Contains(r.URL.RawQuery, name+"=") {
			return "API key"
		}
	}
	return "no credential"
}
