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

// Package pipeline decides which blocks of a request to edit, and how.
//
// Each stage is a pure function of the request, what is remembered of its
// conversation, and the options; it has a file of its own. What a stage does
// to a block is entered in the conversation's ledger and replayed, byte for
// byte, on every later request, so that the upstream's prefix cache keeps
// matching. When a stage may touch a block at all is the policy's to say.
package pipeline
