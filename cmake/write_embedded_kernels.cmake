# Writes OUTPUT: a C++ table of the files in KERNELS (a list of paths), as raw string literals.
set(text "#include \"runtime/kernel_sources.hpp\"\n\nnamespace clora {\nnamespace {\nconstexpr KernelSource kSources[] = {\n    {\"\", \"\"},\n")
foreach(path IN LISTS KERNELS)
  get_filename_component(name ${path} NAME)
  file(READ ${path} body)
  string(APPEND text "    {\"${name}\", R\"CLSOURCE(${body})CLSOURCE\"},\n")
endforeach()
string(APPEND text "};\n}  // namespace\nstd::span<const KernelSource> embedded_kernel_sources() { return std::span(kSources).subspan(1); }\n}  // namespace clora\n")
file(WRITE ${OUTPUT} "${text}")
