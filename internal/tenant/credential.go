// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"net/http"
	"strings"
)

// CredentialKind says which kind of credential a request carries: providers allow with a
// plan's token what they refuse with a key, and the other way round. The kind tells nothing
// about the credential itself.
func CredentialKind(r *http.Request) string {
	for _, name := range credentials {
		for _, v := range r.Header[name] {
			switch key := bare(v); {
			case key == "":
			case strings.HasPrefix(key, "sk-ant-oat"):
				return "plan token"
			case strings.HasPrefix(key, "eyJ") && strings.Count(key, ".") == 2, strings.HasPrefix(key, "ya29."): // a JWT, as of a ChatGPT account, and Google's
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
