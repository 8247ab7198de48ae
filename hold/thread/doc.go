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

// Package thread is for conversations that a provider keeps when it is asked to: message
// threads of the Messages API, stored responses of the Responses API.
//
// A client may send what is new and name the answer that it goes on from. A [Book]
// keeps what such clients have said, so that their requests are whole to all that reads
// them. [Driver] sends what is new upstream, be it all that the client has sent or not.
package thread
