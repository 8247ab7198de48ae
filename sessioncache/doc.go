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

// Package sessioncache remembers conversations: which requests belong
// together, which edits a conversation has committed to, and how warm its
// prefix is upstream.
//
// A [Session] is all traffic of one client conversation, for one credential,
// at one upstream. Inside it each growing conversation (the main thread, each
// sub-agent, each side request) is a [Lineage], found by the longest common
// chain of canonical block hashes. Nothing here holds content, keys or
// credentials, except the short stubs that stand in for edited blocks.
//
// Absence is normal: every caller must do well without a session.
package sessioncache
