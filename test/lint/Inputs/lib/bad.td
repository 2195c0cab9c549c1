def Bad : Op<"bad"> {
  let summary = "what the operation makes";
}
