//! The public edge: gRPC, gRPC-web and the web pages.
