// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
